"""Earliest deadline first; equal deadlines keep their queue order."""

from servestudy.schedulers.protocol import Request
from servestudy.schedulers.published.greedy import FixedOrderScheduler


class Edf(FixedOrderScheduler):
    def key(self, request: Request) -> tuple:
        return (request.deadline_s,)
