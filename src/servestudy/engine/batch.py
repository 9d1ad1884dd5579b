"""The requests of a replica: who waits, who runs, who prefills, decodes or is held, and the KV that each has.

Transitions only; when they happen is iteration.py's business. Each costs no loop over the batch.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Set

from servestudy.engine.decodes import Decodes
from servestudy.engine.kv_cache import KvCache
from servestudy.engine.outcome import Progress
from servestudy.engine.replica_config import ReplicaConfig
from servestudy.schedulers.protocol import Request

log = logging.getLogger(__name__)


class Batch:
    """Queue and running batch of one replica.

    Attributes
    ----------
    queue, running: requests by id, in queue and in admission order.
    progress: of all of them, by id.
    cache: the KV cache.
    decodes: the decoding requests, but for those in `held`.
    prefilling, backlog: running requests with tokens to prefill, in admission order, and the sum of those tokens.
    starting: requests that have just prefilled; they decode once the scheduler has decided, so as to move no more then.
    held: ids of requests that are held one by one, and so are in no cohort.
    swapped_tokens: KV tokens moved to or from host memory that no iteration has paid for yet.
    joined, finished: what the scheduler has to be told.
    completed, rejected_ids: who left, in that order.
    event: something happened that ends the standing decision.
    step: index of the next iteration.
    preemptions: number of them.
    """

    __slots__ = (
        "_by_swap",
        "_max_num_seqs",
        "admissions",
        "backlog",
        "cache",
        "completed",
        "decodes",
        "event",
        "finished",
        "held",
        "joined",
        "preemptions",
        "prefilling",
        "progress",
        "queue",
        "rejected_ids",
        "running",
        "starting",
        "step",
        "swapped_tokens",
    )

    def __init__(self, config: ReplicaConfig):
        limits = config.limits
        blocks, watermark = (
            tokens // limits.block_tokens for tokens in (limits.max_kv_tokens, limits.watermark_tokens)
        )
        self.queue: OrderedDict[int, Request] = OrderedDict()  # both its ends are reached in no time
        self.running: dict[int, Request] = {}
        self.progress: dict[int, Progress] = {}
        self.cache = KvCache(blocks, limits.block_tokens, watermark)
        self.decodes = Decodes(limits.block_tokens)
        self.prefilling: dict[int, Progress] = {}
        self.backlog = 0
        self.starting: list[Progress] = []
        self.held: set[int] = set()
        self.swapped_tokens = 0
        self.joined: list[Request] = []
        self.finished: list[int] = []
        self.completed: list[Progress] = []
        self.rejected_ids: list[int] = []
        self.event = True
        self.step = self.admissions = self.preemptions = 0
        self._max_num_seqs = limits.max_num_seqs
        self._by_swap = config.preemption == "swap"

    def tokens_made(self, request_id: int) -> int:
        p = self.progress[request_id]
        return p.made if p.due is None else p.output_tokens - p.due[0] + p.cohort.ticks

    def kv_tokens(self, request_id: int) -> int:
        """KV tokens that a running request holds."""
        p = self.progress[request_id]
        return p.kv_tokens if p.due is None else p.kv_offset + p.cohort.ticks

    def prefill_left(self, request_id: int) -> int:
        p = self.progress[request_id]
        return p.kv_tokens if self._by_swap and request_id in self.queue else p.prefill_left

    def warn(self, what: str, request_id: int, why: str) -> None:
        log.warning("iteration %d: cannot %s request %s, %s", self.step, what, request_id, why)

    def join(self, p: Progress) -> None:
        """To the back of the queue. Raises ValueError if a request of that id waits or runs."""
        if p.request_id in self.progress:
            raise ValueError(f"request {p.request_id} arrives at {p.arrival_s} s while another of that id is there")
        self.progress[p.request_id] = p
        p.cohort = self.decodes.first
        self.queue[p.request_id] = p.request
        self.joined.append(p.request)
        self.event = True

    def refuse(self, p: Progress) -> None:
        """Turn away a request that could never run."""
        self.rejected_ids.append(p.request_id)
        self.finished.append(p.request_id)
        self.event = True

    def reject(self, request_id: int) -> None:
        if self.queue.pop(request_id, None) is None:
            self.warn("reject", request_id, "it is not waiting")
            return
        del self.progress[request_id]
        self.rejected_ids.append(request_id)
        self.event = True

    def admit(self, request_id: int, time_s: float) -> None:
        """To the end of the running batch, if slots and blocks allow."""
        if request_id not in self.queue:
            self.warn("admit", request_id, "it is not waiting")
            return
        if len(self.running) >= self._max_num_seqs:
            self.warn("admit", request_id, "there is no free slot")
            return
        p = self.progress[request_id]
        if not self.cache.allocate(p.kv_tokens):
            self.warn("admit", request_id, "its blocks are not free")
            return
        self.running[request_id] = self.queue.pop(request_id)
        self.admissions = p.order = self.admissions + 1
        if p.admission_s < 0:
            p.admission_s = time_s
        if p.prefill_left:
            self.swapped_tokens += p.kv_tokens - p.prefill_left
            self.prefilling[request_id] = p
            self.backlog += p.prefill_left
        else:
            self.swapped_tokens += p.kv_tokens
            self.decodes.start(p)

    def preempt(self, request_id: int) -> None:
        """To the front of the queue, without its blocks."""
        if request_id not in self.running:
            self.warn("preempt", request_id, "it is not running")
            return
        p = self.progress[request_id]
        del self.running[request_id]
        self.held.discard(request_id)
        if p.due is not None:
            self.decodes.stop(p)
        elif p.prefill_left:
            del self.prefilling[request_id]
            self.backlog -= p.prefill_left
        elif p in self.starting:
            self.starting.remove(p)
        self.cache.release(p.kv_tokens)
        if self._by_swap:
            self.swapped_tokens += p.kv_tokens - p.prefill_left
        else:
            p.kv_tokens = p.prefill_left = p.request.prompt_tokens + p.made
        p.cohort = self.decodes.first
        p.preemptions += 1
        self.preemptions += 1
        self.queue[request_id] = p.request
        self.queue.move_to_end(request_id, last=False)
        self.joined.insert(0, p.request)
        self.event = True

    def regroup(self, numbers: Mapping[int, int]) -> None:
        """Move running requests, given by id, to the cohorts of these numbers."""
        for request_id, number in numbers.items():
            if request_id in self.running:
                self.decodes.move(self.progress[request_id], number)
            else:
                self.warn("regroup", request_id, "it is not running")

    def hold(self, request_ids: Set[int]) -> None:
        """Hold these running requests, and of the others none but those whose cohort is held."""
        for request_id in self.held - request_ids:
            self.held.remove(request_id)
            p = self.progress[request_id]
            if not p.prefill_left:
                self.decodes.start(p)
        for request_id in request_ids - self.held:
            if request_id not in self.running:
                self.warn("hold", request_id, "it is not running")
                continue
            self.held.add(request_id)
            p = self.progress[request_id]
            if p.due is not None:
                self.decodes.stop(p)
            elif p in self.starting:
                self.starting.remove(p)

    def start_decodes(self) -> None:
        """Of the requests that have just prefilled."""
        for p in self.starting:
            self.decodes.start(p)
        self.starting.clear()

    def complete(self, p: Progress, step: int, time_s: float) -> None:
        """Its last token was made in iteration `step`, which ends at `time_s`."""
        request_id = p.request_id
        if p.due is not None:
            self.decodes.stop(p)
        self.cache.release(p.kv_tokens)
        del self.running[request_id], self.progress[request_id]
        p.completion_step = step
        p.completion_s = time_s
        if not p.arrival_s <= p.admission_s <= p.first_token_s <= time_s:
            raise RuntimeError(f"iteration {step}: request {request_id} is out of order: {p}")
        self.completed.append(p)
        self.finished.append(request_id)
        self.event = True

    def check(self, injected: int) -> None:
        """Raise RuntimeError if requests or blocks were lost or made up."""
        counts = len(self.completed), len(self.running), len(self.queue), len(self.rejected_ids)
        if injected != sum(counts):
            raise RuntimeError(f"{injected} requests, but completed, running, queued, rejected are {counts}")
        blocks = 0
        for request_id in self.running:
            blocks -= -self.kv_tokens(request_id) // self.cache.block_tokens
        if blocks != self.cache.total_blocks - self.cache.free_blocks:
            raise RuntimeError(
                f"running requests hold {blocks} KV blocks, of the cache not so many are free: {self.cache}"
            )
