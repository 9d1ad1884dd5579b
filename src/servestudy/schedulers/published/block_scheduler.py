"""What the four `*_faithful` schedulers share: their own block count, kept up over the steps that the engine skips."""

from servestudy.schedulers.protocol import ReplicaView, Request, Scheduler
from servestudy.schedulers.published.block_manager import BlockManager


class BlockScheduler(Scheduler):
    """Tracks the blocks and the arrival of running requests."""

    def reset(self) -> None:
        self._blocks: BlockManager | None = None
        self._arrival_s: dict[int, float] = {}
        self._latest_arrival = (-1.0, -1)  # (arrival, id) of the last, by arrival, that was ever admitted
        self._last_step = 0

    def begin(self, view: ReplicaView) -> int:
        """Catch up with the steps since the last call and release what has completed.

        Returns the number of skipped steps. In each of them the growing requests took a token, as they would have
        if the scheduler had been called.
        """
        if self._blocks is None:
            self._blocks = BlockManager(view.limits)
        skipped = max(0, view.step - self._last_step - 1)
        self._last_step = view.step
        if skipped:
            self._blocks.tick(skipped)
        for request_id in view.finished:
            self.drop(request_id)
        for request in view.joined:
            if request.request_id in self._arrival_s:  # evicted by the engine, which the published one never does
                self.drop(request.request_id)
        return skipped

    def take(self, request: Request, tokens: int, growing: bool) -> None:
        """Allocate blocks for a request that is being admitted."""
        self._blocks.allocate(request.request_id, tokens, growing)
        self._arrival_s[request.request_id] = request.arrival_s
        self._latest_arrival = max(self._latest_arrival, (request.arrival_s, request.request_id))

    def drop(self, request_id: int) -> None:
        """Release a request that has completed or is being evicted."""
        self._blocks.release(request_id)
        del self._arrival_s[request_id]

    def by_arrival(self) -> list[int]:
        """Ids of the running requests by (arrival, id)."""
        return sorted(self._arrival_s, key=lambda request_id: (self._arrival_s[request_id], request_id))
