"""A waiting queue kept sorted by keys that do not change while a request waits."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator

from servestudy.schedulers.protocol import Request


class SortedQueue:
    """Requests in ascending order of `key`; equal keys in the order in which they were added."""

    def __init__(self, key: Callable[[Request], tuple]):
        self._key = key
        self._entries: list[tuple[tuple, int, Request]] = []
        self._entry_of: dict[int, tuple[tuple, int, Request]] = {}
        self._added = 0

    def add(self, requests: Iterable[Request]) -> None:
        for request in requests:
            entry = (self._key(request), self._added, request)
            insort(self._entries, entry)
            self._entry_of[request.request_id] = entry
            self._added += 1

    def remove(self, request_ids: Iterable[int]) -> None:
        for request_id in request_ids:
            del self._entries[bisect_left(self._entries, self._entry_of.pop(request_id))]

    def __iter__(self) -> Iterator[Request]:
        return (request for _, _, request in self._entries)

    def __len__(self) -> int:
        return len(self._entries)
