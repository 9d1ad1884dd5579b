"""Shortest estimated service first."""

from dataclasses import dataclass

from servestudy.schedulers.protocol import Request
from servestudy.schedulers.published.estimates import STEPS_PER_PROMPT_TOKEN, service_steps
from servestudy.schedulers.published.greedy import FixedOrderScheduler


@dataclass
class EstimatedServiceTimeFirst(FixedOrderScheduler):
    steps_per_prompt_token: float = STEPS_PER_PROMPT_TOKEN

    def key(self, request: Request) -> tuple:
        service = service_steps(request, self.steps_per_prompt_token)
        return (service, request.deadline_s, -request.weight, request.request_id)
