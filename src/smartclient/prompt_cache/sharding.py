"""Which `prompt_cache_key` a conversation has, so that no key carries too many requests.

OpenAI sends requests with one key and one beginning to one machine, and what comes above some
15 a minute to others, whose caches are cold.
Source: OpenAI API guide, "Prompt caching" (how requests are routed).
"""

from __future__ import annotations

from collections import OrderedDict, deque

__all__ = ["PER_MINUTE", "Shards"]

PER_MINUTE = 15
_MINUTE = 60.0
_MAX_PREFIXES, _ALL_PREFIXES = 256, 2048  # of one book, and of all that a client has


class Shards:
    """Counts requests by prefix and shard. Not for several threads at once."""

    def __init__(self) -> None:
        self._recent: OrderedDict[bytes, list[deque[float]]] = OrderedDict()
        self._most = _MAX_PREFIXES

    def make_room(self, books: int) -> None:
        """Keep no more than the share of one among so many `books`."""
        self._most = min(_MAX_PREFIXES, _ALL_PREFIXES // books)
        while len(self._recent) > self._most:
            self._recent.popitem(last=False)

    def pick(self, prefix: bytes, held: int | None, now: float) -> int:
        """The shard for a request that is sent now.

        Args:
            held: That of the conversation so far: it stays as long as there is room, because
                that is where the rest of its prompt lies.
        """
        shards = self._recent.get(prefix)
        if shards is None:
            shards = self._recent[prefix] = []
            if len(self._recent) > self._most:
                self._recent.popitem(last=False)
        self._recent.move_to_end(prefix)
        for recent in shards:
            while recent and recent[0] <= now - _MINUTE:
                recent.popleft()
        order = range(len(shards)) if held is None else (held, *range(len(shards)))
        for number in order:
            if number < len(shards) and len(shards[number]) < PER_MINUTE:
                shards[number].append(now)
                return number
        shards.append(deque([now]))
        return len(shards) - 1
