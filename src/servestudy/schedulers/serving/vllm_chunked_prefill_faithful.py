"""vLLM with chunked prefill (V1, and V0 with the option on): first come first served, decodes first.

Prefills share what decodes leave of `max_num_batched_tokens`. The last to arrive is preempted, and goes back in order
of arrival.
"""

from servestudy.schedulers.protocol import ReplicaView, Request
from servestudy.schedulers.serving.ordered import LastArrivedIsVictim, OrderedScheduler


class VllmChunkedPrefillFaithful(LastArrivedIsVictim, OrderedScheduler):
    def key(self, request: Request, view: ReplicaView) -> int:
        return 0
