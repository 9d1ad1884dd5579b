"""What a decision of the scheduler, and a lack of blocks, do to a replica's requests."""

from collections.abc import Mapping

from servestudy.engine.batch import Batch
from servestudy.engine.outcome import Progress
from servestudy.schedulers.protocol import Action, Scheduler


def apply(action: Action, batch: Batch, time_s: float) -> None:
    """Reject, preempt, admit, regroup and hold; what is not possible is left out with a warning."""
    admit, preempt, hold, _, reject, prefill, _, regroup, hold_cohorts = action
    for request_id in reject:
        batch.reject(request_id)
    for request_id in preempt:
        batch.preempt(request_id)
    for request_id in admit:
        if request_id in preempt:
            batch.warn("admit", request_id, "it was preempted in this iteration")
        else:
            batch.admit(request_id, time_s)
    if regroup:
        batch.regroup(regroup)
    if hold_cohorts != batch.decodes.held:
        batch.decodes.hold(hold_cohorts)
    if hold or batch.held:
        batch.hold(hold)
    if prefill:
        for request_id in prefill:
            if request_id not in batch.running:
                batch.warn("prefill", request_id, "it is not running")


def chunks(
    batch: Batch, budget: int, most: Mapping[int, int] | None, may_be_cut: bool, alone: bool
) -> list[tuple[Progress, int]]:
    """Who prefills how many tokens in an iteration with `budget` tokens for it.

    most: as in Action.prefill. may_be_cut: whether a prompt goes in in parts. alone: nothing decodes in the iteration.
    """
    chosen: list[tuple[Progress, int]] = []
    for request_id in batch.prefilling if most is None else most:
        p = batch.prefilling.get(request_id)
        if p is None or request_id in batch.held:
            continue
        tokens = p.prefill_left
        if most is not None:
            limit = most[request_id]
            if limit < 1:
                continue
            if limit < tokens and may_be_cut:
                tokens = limit
        if tokens > budget:
            if may_be_cut:
                tokens = budget
            elif chosen or not alone:
                break
        if tokens < 1:
            break
        chosen.append((p, tokens))
        budget -= tokens
    return chosen


def preempt_for_blocks(batch: Batch, scheduler: Scheduler) -> None:
    """Preempt victims until every decode left can have its next block."""
    while batch.decodes.blocks_of_tick() > batch.cache.free_blocks:
        running = list(batch.running.values())
        request_id = scheduler.victim(running)
        if request_id not in batch.running:
            batch.warn("preempt", request_id, "it is not running; the last admitted goes")
            request_id = running[-1].request_id
        batch.preempt(request_id)
