"""What is known of one model's prompt cache behind one address and key."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .blocks import Block, Tier, Walk
from .gaps import Gaps
from .sharding import Shards
from .terms import Terms
from .walk import fingerprints

__all__ = ["Book", "Entry", "Lane", "Spot", "outline_of", "rules_of"]

_MAX_ENTRIES, _ALL_ENTRIES = 4096, 16_384  # of one book, and of all that a client has
_MAX_SPOTS, _ALL_SPOTS = 512, 4096
_MOST_MET = 64.0  # beginnings after which all of them count half
_MOST_TURNS = 8  # that are told apart: later ones are alike
_GOES_ON, _SURE_TURNS = 0.85, 2.0  # a conversation that went on once, where nothing is known
_MAX_HELD = 24  # of a lane: more than a look back can tell apart
_MAX_HINTS = 64
_OUTLINE = 200  # characters
_IMAGE_BYTES = 6400  # what an image weighs: tokens times the bytes of one
_BYTES_PER_TOKEN = 4.0
_UNSURE, _SURE = 2.0, 1.15  # how far an estimate may be off, before and after a reply told
_RECOVERY = 3600.0  # seconds until what was believed of a provider counts no more


class Entry:
    """A prefix that we believe the provider holds.

    Attributes:
        ends_at: When it goes, in monotonic seconds, unless it is read before.
        tokens: As the provider counted them; `None` where it did not.
    """

    __slots__ = ("ends_at", "seconds", "tokens", "ttl")

    def __init__(self, ttl: str, seconds: float, ends_at: float) -> None:
        self.ttl, self.seconds, self.ends_at = ttl, seconds, ends_at
        self.tokens: int | None = None


class Spot:
    """A prefix with which several conversations may begin.

    Attributes:
        last: When it was last sent, in monotonic seconds; `None`: not since it is known.
        forks: Lanes that began behind it.
        grown: Those of them that were followed up.
        lanes: Lanes that were seen to begin with it.
    """

    __slots__ = ("forks", "gaps", "grown", "lanes", "last")

    def __init__(self) -> None:
        self.gaps = Gaps()
        self.last: float | None = None
        self.forks = self.grown = self.lanes = 0


class Lane:
    """A conversation: requests of which each shares a long prefix with the one before.

    Attributes:
        walk: The last request's prompt.
        fork: Last block that its first request shared with another lane; -1 for none.
        spot: Of that block.
        turns: Requests that had all of the one before.
        partial: Those that had only a part of it.
        shard: Which `prompt_cache_key` it has; `None` for none yet.
        size: Bytes that it holds.
        held: Blocks up to which the provider may hold its prompt.
        reply_id: Of the reply to its last request.
    """

    __slots__ = (
        "book",
        "fork",
        "gaps",
        "held",
        "keys",
        "last_at",
        "partial",
        "reply_id",
        "shard",
        "size",
        "spot",
        "turns",
        "walk",
    )

    def __init__(self, book: Book, spot: Spot, fork: int, at: float) -> None:
        self.book, self.spot, self.fork, self.last_at = book, spot, fork, at
        self.gaps = Gaps()
        self.keys: Sequence[bytes] = ()
        self.held: tuple[int, ...] = ()
        self.walk: Walk | None = None
        self.turns = self.partial = self.size = 0
        self.shard: int | None = None
        self.reply_id: str | None = None

    def hold(self, more: Iterable[int], shared: int) -> None:
        """Blocks up to which the provider may hold this lane's prompt, none behind `shared`."""
        held = sorted({index for index in (*self.held, *more) if index <= shared})
        self.held = tuple(held[-_MAX_HELD:])


class _Node:
    """A prefix that lanes hold: how many, and the newest of them."""

    __slots__ = ("lane", "refs")

    def __init__(self, lane: Lane) -> None:
        self.lane: Lane | None = lane
        self.refs = 1


class Book:
    """Not for several threads at once, but where it says so."""

    def __init__(self, terms: Terms | None) -> None:
        self.terms = terms
        self._max_entries, self._max_spots = _MAX_ENTRIES, _MAX_SPOTS
        self.where: dict[bytes, _Node] = {}
        self.entries: OrderedDict[bytes, Entry] = OrderedDict()
        self.root, self.gaps = Spot(), Gaps()
        self.shards = Shards()
        self.ratio, self.spread = 1.0 / _BYTES_PER_TOKEN, _UNSURE
        self.learned_least = 0
        self.writing: dict[bytes, int] = {}  # calls on their way that write a prefix
        self.blocked_until: float | None = None
        self._trust, self._trusted_at = 1.0, 0.0
        self._spots: OrderedDict[bytes, Spot] = OrderedDict()
        self._hints: OrderedDict[Any, Lane] = OrderedDict()
        self._salts: dict[Tier, bytes] = {}
        self._params: Any = None
        self._measured: tuple[Walk, list[bytes], list[int]] | None = None
        self._heads: tuple[tuple[int, bytes], ...] = ()
        self._newest: Lane | None = None
        self._met: dict[Tier, tuple[float, float]] = {}
        self._turns = [[0.0, 0.0] for _ in range(_MOST_TURNS)]  # lanes that came, and went on

    def make_room(self, books: int) -> None:
        """Keep no more than the share of one among so many `books`."""
        self._max_entries = min(_MAX_ENTRIES, _ALL_ENTRIES // books)
        self._max_spots = min(_MAX_SPOTS, _ALL_SPOTS // books)
        while len(self.entries) > self._max_entries:
            self.entries.popitem(last=False)
        while len(self._spots) > self._max_spots:
            self._spots.popitem(last=False)
        self.shards.make_room(books)

    def measured(self, walk: Walk) -> tuple[list[bytes], list[int]]:
        """The digest of the prompt up to each block, with what else breaks it, and its bytes as
        far as they are text. What the request before has in common is taken over."""
        if walk.params != self._params:
            self._salts, self._params = fingerprints(walk), walk.params
            self._measured = None
        salts, before, blocks = self._salts, self._measured, walk.blocks
        keys: list[bytes] = []
        weights: list[int] = []
        if before is not None:
            count = _same(before[0].blocks, blocks)
            keys, weights = before[1][:count], before[2][:count]
        total = weights[-1] if weights else 0
        for block in blocks[len(keys) :]:
            keys.append(block.prefix + salts[block.tier])
            size = len(block.data)
            if size > _IMAGE_BYTES and b"base64" in block.data[:400]:
                size = _IMAGE_BYTES
            total += size
            weights.append(total)
        self._measured = (walk, keys, weights)
        return keys, weights

    def shared(self, keys: Sequence[bytes]) -> int:
        """The last of `keys` that some lane holds; with it all before are held."""
        where, low, high = self.where, -1, len(keys) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if keys[middle] in where:
                low = middle
            else:
                high = middle - 1
        return low

    def add(self, keys: Sequence[bytes], start: int, lane: Lane) -> None:
        """Let `lane` hold the prefixes from `start` on, which no lane held before."""
        where = self.where
        for key in keys[start:]:
            where[key] = _Node(lane)

    def share(self, keys: Iterable[bytes], lane: Lane) -> None:
        """Let `lane` hold these too, as the newest of those that do."""
        where = self.where
        for key in keys:
            node = where[key]
            node.refs += 1
            node.lane = lane

    def forget(self, keys: Iterable[bytes]) -> None:
        """One lane less holds these."""
        where = self.where
        for key in keys:
            node = where[key]
            node.refs -= 1
            if not node.refs:
                del where[key]

    def drop(self, lane: Lane) -> None:
        """It is forgotten; what other lanes share with it stays."""
        self.forget(lane.keys)
        for key in lane.keys:
            node = self.where.get(key)
            if node is None:
                break  # what follows was its own
            if node.lane is lane:
                node.lane = None
        for hint in [one for one, held in self._hints.items() if held is lane]:
            del self._hints[hint]
        if self._newest is lane:
            self._newest = None
        if self._measured is not None and self._measured[0] is lane.walk:
            self._measured = None
        lane.walk = None

    def spot(self, key: bytes) -> Spot:
        """What is known of a prefix that conversations share."""
        spot = self._spots.get(key)
        if spot is None:
            spot = self._spots[key] = Spot()
            if len(self._spots) > self._max_spots:
                self._spots.popitem(last=False)
        else:
            self._spots.move_to_end(key)
        return spot

    def heads(self, walk: Walk, keys: Sequence[bytes]) -> tuple[int, ...]:
        """The last blocks of the tools and of the system prompt."""
        known = self._heads
        if known and known[-1][0] < len(keys) and keys[known[-1][0]] == known[-1][1]:
            after = known[-1][0] + 1
            if after == len(keys) or walk.blocks[after].tier == "messages":
                return tuple(index for index, _ in known)
        ends: dict[Tier, int] = {}
        for index, block in enumerate(walk.blocks):
            if block.tier == "messages":
                break
            ends[block.tier] = index
        self._heads = tuple((index, keys[index]) for index in ends.values())
        return tuple(ends.values())

    def meet(self, tier: Tier, *, is_known: bool) -> float:
        """Note whether the end of the tools, or of the system prompt, was sent before.

        Returns:
            The chance that a new one is sent again, by how many were not new until now.
        """
        known, met = self._met.get(tier, (0.0, 0.0))
        stays = (known + 0.5) / (met + 1.0)
        if met >= _MOST_MET:
            known, met = known / 2.0, met / 2.0
        self._met[tier] = (known + is_known, met + 1.0)
        return stays

    def reach(self, turn: int) -> float:
        """Note that a lane has come to its turn number `turn`, from 1 for the second request.

        Returns:
            The chance that another one follows, by how many of the lanes that came so far went
            on.
        """
        turns = self._turns
        if turn > 0:  # one more went on from the turn before; the last counts for all after it
            turns[min(turn, len(turns)) - 1][1] += 1.0
        here = turns[min(turn, len(turns) - 1)]
        came, went = here
        if came >= _MOST_MET:
            here[0], here[1] = came / 2.0, went / 2.0
        here[0] += 1.0
        return (went + _SURE_TURNS * _GOES_ON) / (came + _SURE_TURNS)

    # What earlier replies told of.

    def trust_at(self, now: float) -> float:
        """Share of what was expected to be read that was; misses are forgotten in an hour."""
        passed = min(1.0, max(0.0, (now - self._trusted_at) / _RECOVERY))
        return self._trust + (1.0 - self._trust) * passed

    def verified(self, share: float, now: float) -> None:
        """Note how much of what was expected to be read was, 0 to 1."""
        self._trust = 0.7 * self.trust_at(now) + 0.3 * share
        self._trusted_at = now

    def calibrate(self, weight: int, tokens: int) -> None:
        """Learn how many tokens a byte is: `tokens` were counted for `weight` bytes."""
        told = tokens / weight
        self.ratio = told if self.spread == _UNSURE else 0.5 * (self.ratio + told)
        self.spread = _SURE

    def keep(self, key: bytes, ttl: str, seconds: float, started: float) -> Entry:
        """The provider holds this prefix from now on, as of the start of a request."""
        entry = self.entries.get(key)
        if entry is None or started >= entry.ends_at:
            entry = self.entries[key] = Entry(ttl, seconds, started + seconds)
            if len(self.entries) > self._max_entries:
                self.entries.popitem(last=False)
        else:
            entry.ends_at = max(entry.ends_at, started + entry.seconds)
        self.entries.move_to_end(key)
        return entry

    # What makes reading the next request quick.

    def remember(self, lane: Lane) -> None:
        self._newest = lane

    def likely(self, key: Any) -> Lane | None:
        """The lane of the last request with this outline."""
        return self._hints.get(key)

    def newest(self) -> Lane | None:
        """The lane of the last request."""
        return self._newest

    def outline(self, key: Any, lane: Lane) -> None:
        """Let `hint` find `lane` by `key`."""
        self._hints[key] = lane
        self._hints.move_to_end(key)
        if len(self._hints) > _MAX_HINTS:
            self._hints.popitem(last=False)


def _same(before: Sequence[Block], after: Sequence[Block]) -> int:
    """How many blocks two prompts have in common at their beginning."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[middle - 1].prefix == after[middle - 1].prefix:
            low = middle
        else:
            high = middle - 1
    return low


def outline_of(payload: Mapping[str, Any]) -> Any:
    """A quick mark of a conversation: what the first of its messages begins with that is no
    part of the system prompt."""
    said = payload.get("messages") or payload.get("input")
    if not isinstance(said, list | tuple):
        return said[:_OUTLINE] if isinstance(said, str) else None
    for one in said:
        if not _is_of_the_system(one):
            content = one.get("content") if isinstance(one, Mapping) else one
            told = _text(content, 0)
            return None if told is None else told[:_OUTLINE]
    return None


def rules_of(payload: Mapping[str, Any]) -> Any:
    """A quick mark of a system prompt: what it ends with, which a changed time in it leaves."""
    told = _text(payload.get("system") or payload.get("instructions"), -1)
    said = payload.get("messages") or payload.get("input")
    if told is None and isinstance(said, list | tuple):
        for one in said:
            if not _is_of_the_system(one):
                break
            told = _text(one.get("content"), -1)
    return ("rules", told[-_OUTLINE:]) if told else None


def _is_of_the_system(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")


def _text(content: Any, index: int) -> str | None:
    """Content that is text, or that of one of its blocks."""
    if isinstance(content, list | tuple) and content:
        content = content[index].get("text") if isinstance(content[index], Mapping) else None
    return content if isinstance(content, str) else None
