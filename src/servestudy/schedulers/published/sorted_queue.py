"""A waiting queue kept sorted by keys that do not change while a request waits."""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator

from servestudy.schedulers.protocol import Request


class SortedQueue:
    """Requests in ascending order of `key`; equal keys in the order in which they were added."""

    def __init__(self, key: Callable[[Request], tuple]):
        self._key = key
        self._entries: list[tuple[tuple, int, Request]] = []
        self._added = 0

    def add(self, requests: Iterable[Request]) -> None:
        for request in requests:
            insort(self._entries, (self._key(request), self._added, request))
            self._added += 1

    def remove(self, request_ids: Collection[int]) -> None:
        if request_ids:
            self._entries = [entry for entry in self._entries if entry[2].request_id not in request_ids]

    def __iter__(self) -> Iterator[Request]:
        return (request for _, _, request in self._entries)

    def __len__(self) -> int:
        return len(self._entries)
