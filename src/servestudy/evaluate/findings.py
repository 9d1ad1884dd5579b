"""What can be wrong with a scheduler: the kinds of findings, and a finding."""

from dataclasses import dataclass

KINDS = {
    "raises": "raises an exception",
    "never_returns": "does not come to an end",
    "bad_action": "answers with something that is no decision",
    "changes_view": "changes the view, which is for reading only",
    "admits_twice": "admits a request twice",
    "admits_unknown": "admits what is not waiting",
    "exceeds_slots": "admits more requests than there are slots",
    "exceeds_kv": "admits what does not fit into the KV cache",
    "unknown_request": "preempts, rejects, holds, prefills or regroups what cannot be",
    "deadlock": "leaves the replica idle for ever although requests wait that fit",
    "holds_for_ever": "holds a request for ever",
    "livelock": "preempts a request again and again, so that it never completes",
    "starves": "leaves requests waiting until the run ends",
    "not_deterministic": "decides otherwise when the same cell is run again",
    "state_survives_reset": "decides otherwise when the same object runs the same cell again: reset() leaves something",
    "decision_outlives_its_word": "changes its mind within the valid_steps or valid_until_s that it promised",
    "sees_true_lengths": "decides otherwise when only the true lengths of requests that still run are others",
}
"""In the order of the report."""

NOTES = frozenset(["starves"])
"""Kinds that are no mistakes of the code: in overload, an order may well starve somebody."""


@dataclass(frozen=True)
class Finding:
    """One observation, in the cell and step where it was made first.

    request_id: None if it is about no single request. step: of the published model, or iteration of the serving one.
    """

    kind: str
    step: int
    time_s: float
    request_id: int | None
    text: str

    @property
    def where(self) -> str:
        request = "" if self.request_id is None else f", request {self.request_id}"
        return f"step {self.step} ({self.time_s:.6g} s){request}"


class SchedulerFault(Exception):
    """A finding after which the cell cannot go on."""

    def __init__(self, finding: Finding):
        super().__init__(finding.text)
        self.finding = finding


class OutOfTime(BaseException):
    """The cell's time is over; no `except Exception` of a scheduler may swallow it."""
