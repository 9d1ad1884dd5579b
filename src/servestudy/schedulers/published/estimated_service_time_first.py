"""Shortest estimated service first."""

from servestudy.schedulers.protocol import Request
from servestudy.schedulers.published.estimates import service_steps
from servestudy.schedulers.published.greedy import FixedOrderScheduler


class EstimatedServiceTimeFirst(FixedOrderScheduler):
    def key(self, request: Request) -> tuple:
        return (service_steps(request), request.deadline_s, -request.weight, request.request_id)
