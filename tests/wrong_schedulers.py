"""Schedulers that are wrong on purpose, each in one way; the name of the class says in which."""

import random

import numpy as np

from servestudy.schedulers.protocol import UNTIL_EVENT, Action, Scheduler


def in_order(view):
    """Ids of the waiting requests that fit, first come first served."""
    running, kv_tokens, admit = view.running_count, view.kv_tokens, []
    for request in view.queue:
        tokens = view.prefill_left(request.request_id)
        if not view.limits.fits(running, kv_tokens, tokens):
            break
        admit.append(request.request_id)
        running += 1
        kv_tokens += tokens + -tokens % view.limits.block_tokens
    return admit


class Right(Scheduler):
    def decide(self, view):
        return Action(in_order(view))


class RightWithArrays(Scheduler):
    def decide(self, view):
        return Action(np.array(in_order(view), dtype=int))


class RaisesInTheMiddle(Scheduler):
    def decide(self, view):
        if view.step > 20:
            raise KeyError("no such tenant")
        return Action(in_order(view))


class NeverReturns(Scheduler):
    def decide(self, view):
        while view.step > 5:
            pass
        return Action(in_order(view))


class NeverAdmits(Scheduler):
    def decide(self, view):
        return Action(valid_steps=UNTIL_EVENT)


class HoldsForEver(Scheduler):
    def decide(self, view):
        admit = in_order(view)
        return Action(admit, hold={3} if any(r.request_id == 3 for r in view.running) or 3 in admit else frozenset())


class AdmitsTwice(Scheduler):
    def decide(self, view):
        return Action(in_order(view) * 2)


class AdmitsTheFinished(Scheduler):
    def decide(self, view):
        return Action([*in_order(view), *view.finished])


class ExceedsKv(Scheduler):
    def decide(self, view):
        return Action([request.request_id for request in view.queue][: view.limits.max_num_seqs - view.running_count])


class ExceedsSlots(Scheduler):
    def decide(self, view):
        return Action([request.request_id for request in view.queue])


class ChangesTheView(Scheduler):
    def decide(self, view):
        admit = in_order(view)
        view.kv_tokens = 0
        return Action(admit)


class TakesFromTheQueue(Scheduler):
    def decide(self, view):
        admit = in_order(view)
        for request_id in admit:
            view._queue.pop(request_id)
        return Action(admit)


class Random(Scheduler):
    def decide(self, view):
        return Action([request_id for request_id in in_order(view) if random.random() < 0.5])


class ForgetsToForget(Scheduler):
    def __init__(self):
        self.known = set()

    def decide(self, view):
        self.known.update(view.finished)
        return Action(in_order(view)[: 1 + len(self.known) % 2])


class BreaksItsWord(Scheduler):
    """Admits in some steps only, yet says that its decision stands until the next event."""

    def decide(self, view):
        return Action(() if view.step % 3 else in_order(view)[:1], valid_steps=UNTIL_EVENT)


class LooksAtTheLengths(Scheduler):
    def __init__(self, lengths=None):
        self.lengths = lengths

    def decide(self, view):
        lengths = true_lengths(view)
        slots = view.limits.max_num_seqs - view.running_count
        waiting = sorted(view.queue, key=lambda request: lengths[request.request_id])
        few = max(0, min(slots, 4 - view.running_count))
        return Action([request.request_id for request in waiting[:few]])


def true_lengths(view):
    """What no scheduler should: the lengths, from inside of a function that the engine lends."""
    function = view.tokens_made
    if hasattr(function, "__self__"):
        return {i: p.output_tokens for i, p in function.__self__.progress.items()}
    cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
    return cells["outputs"].cell_contents


class PreemptsForEver(Scheduler):
    def decide(self, view):
        running = [request.request_id for request in view.running]
        if running:
            return Action(preempt=running)
        return Action([request.request_id for request in view.queue][:1])


class ReturnsNothing(Scheduler):
    def decide(self, view):
        in_order(view)


class AdmitsRequestsNotIds(Scheduler):
    def decide(self, view):
        return Action(view.waiting)


class PreemptsTheAbsent(Scheduler):
    def decide(self, view):
        return Action(in_order(view), preempt=[987_654])


class Exits(Scheduler):
    def decide(self, view):
        raise SystemExit(0)


class VictimUnknown(Scheduler):
    def decide(self, view):
        return Action(in_order(view))

    def victim(self, running):
        return -1
