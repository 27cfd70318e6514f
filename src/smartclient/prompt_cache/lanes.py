"""What was sent before: requests in lanes, each a conversation, found by the longest shared prefix.

A main loop and its sub-agents interleave, so a request is compared with the lane that it shares
most with, never just with the one before it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from .blocks import Tier, Walk
from .book import Book, Lane, Spot
from .terms import Terms
from .view import View, shape_of

__all__ = ["MAX_BYTES", "MAX_LANES", "Lanes", "Ticket"]

MAX_LANES = 512
MAX_BYTES = 32 << 20
"""Of prompts and digests that all lanes of a client hold together; the rest of its state, at
most 16,384 entries and 4,096 boundaries in 64 books, is small beside it."""

_MAX_BOOKS = 64
_LANE_BYTES, _BLOCK_BYTES = 1000, 700  # of each, beside the prompt's own


class Ticket:
    """One request in its lane.

    Attributes:
        keys: Digest of the prompt up to each block, with what else the prefix depends on.
        weights: Bytes up to each block, as far as they are text.
        shared: Last block that an earlier request began with too; -1 for none.
        since: Seconds since that prefix was last sent.
        before: The prompt that this one goes on from, or should; `None` for none.
        entry: Last block of the longest prefix of `before` that the provider held.
        cached: Its tokens.
        idle: Seconds since it was last used.
        lives: Seconds that it is kept.
        is_astray: It begins like `before`, and does not go on from it.
        reply_id: Of the reply to `before`.
    """

    __slots__ = (
        "at",
        "before",
        "book",
        "boundaries",
        "cached",
        "entry",
        "growth",
        "idle",
        "is_astray",
        "is_extension",
        "keys",
        "lane",
        "lives",
        "next_turn",
        "reply_id",
        "shared",
        "siblings",
        "since",
        "stays",
        "walk",
        "weights",
    )

    def __init__(self, book: Book, walk: Walk, at: float) -> None:
        self.book, self.walk, self.at = book, walk, at
        self.keys: list[bytes] = []
        self.weights: list[int] = []
        self.lane: Lane | None = None
        self.before: Walk | None = None
        self.shared, self.since = -1, None
        self.is_extension = self.is_astray = False
        self.boundaries: dict[int, tuple[Spot, float | None]] = {}
        self.stays: dict[Tier, float] = {}
        self.growth, self.next_turn, self.siblings = 0.0, 0.0, 0
        self.entry: int | None = None
        self.reply_id: str | None = None
        self.cached: int | None = None
        self.idle: float | None = None
        self.lives: float | None = None

    since: float | None

    def expect(self, lane: Lane, *, most: int) -> None:
        """Note what the provider should hold of `lane`, up to block `most`."""
        walk, entries = lane.walk, self.book.entries
        if walk is None:
            return
        self.before, self.reply_id = walk, lane.reply_id
        self.entry = self.cached = self.idle = self.lives = None
        for index in reversed(lane.held):
            entry = entries.get(lane.keys[index]) if index <= most else None
            if entry is not None:
                counted, rough = entry.tokens, walk.blocks[index].end * self.book.ratio
                self.entry, self.cached = index, int(rough) if counted is None else counted
                self.idle = self.at - (entry.ends_at - entry.seconds)
                self.lives = entry.seconds
                return

    def view(self, now: float) -> View:
        """What placement looks at."""
        book, lane, keys, shared = self.book, self.lane, self.keys, self.shared
        assert lane is not None
        alive = {}
        for index in (*lane.held, *self.boundaries):
            if index <= shared:
                entry = book.entries.get(keys[index])
                if entry is not None and now < entry.ends_at:
                    alive[index] = entry
        return View(
            weights=self.weights,
            ratio=book.ratio,
            shared=shared,
            since=self.since,
            is_extension=self.is_extension,
            spread=book.spread,
            alive=alive,
            boundaries=self.boundaries,
            stays=self.stays,
            gaps=lane.gaps,
            book_gaps=book.gaps,
            growth=self.growth,
            next_turn=self.next_turn,
            siblings=self.siblings,
            turns=lane.turns + lane.partial,
            trust=book.trust_at(now),
            least=book.learned_least,
        )


class Lanes:
    """The lanes of one client; for any number of threads.

    Attributes:
        lock: Held by who changes a book; never for long, and never across a wait.
    """

    def __init__(self, *, max_lanes: int = MAX_LANES, max_bytes: int = MAX_BYTES) -> None:
        self._max_lanes, self._max_bytes = max_lanes, max_bytes
        # One that its own thread may take twice: a call that is collected lands anywhere.
        self.lock = threading.RLock()
        self._books: OrderedDict[Hashable, Book] = OrderedDict()
        # Those whose first request was never followed go first: most are of one-shot calls.
        self._fresh: OrderedDict[int, Lane] = OrderedDict()
        self._grown: OrderedDict[int, Lane] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._grown)

    @property
    def num_bytes(self) -> int:
        """Of prompts and digests that are held."""
        return self._bytes

    def book(self, key: Hashable, terms: Callable[[], Terms | None]) -> Book:
        """What is known of one model behind one address and key.

        Args:
            terms: Gives the model's, for a book that is new.
        """
        with self.lock:
            book = self._books.get(key)
            if book is None:
                book = self._books[key] = Book(terms())
                if len(self._books) > _MAX_BOOKS:
                    self._close(self._books.popitem(last=False)[1])
                for one in self._books.values():
                    one.make_room(len(self._books))
            else:
                self._books.move_to_end(key)
            return book

    def enter(
        self,
        book: Book,
        walk: Walk,
        now: float,
        *,
        likely: Lane | None = None,
        kin: Lane | None = None,
    ) -> Ticket:
        """Note that a request is about to be sent, and find its lane.

        Args:
            likely: The lane whose requests began like this one, by its outline.
            kin: One whose system prompt ends like this one's.
        """
        ticket = Ticket(book, walk, now)
        with self.lock:
            lane = self._find(ticket)
            if likely is not None and not ticket.is_extension:
                ticket.expect(likely, most=len(likely.keys))
                ticket.is_astray = ticket.shared < len(likely.keys) - 1
            elif kin is not None and kin.walk is not None and ticket.shared < _head(walk):
                ticket.expect(kin, most=_head(kin.walk))
                ticket.is_astray = True
            if lane is None:
                self._open(ticket)
            else:
                self._follow(ticket, lane)
            self._look_at_boundaries(ticket, is_new=lane is None)
            self._shrink(ticket.lane)
        return ticket

    def outline(self, book: Book, outline: Hashable, ticket: Ticket) -> None:
        """Remember what the requests of a lane begin with, to find it before they are read."""
        with self.lock:
            if ticket.lane is not None and ticket.lane.walk is not None:
                book.outline(outline, ticket.lane)

    def shard(self, ticket: Ticket, index: int, now: float) -> int:
        """Which of the keys for the prefix up to a block the request's lane has."""
        lane = ticket.lane
        assert lane is not None
        with self.lock:
            lane.shard = ticket.book.shards.pick(ticket.keys[index], lane.shard, now)
            return lane.shard

    def _find(self, ticket: Ticket) -> Lane | None:
        """The lane that the request goes on with; `None` where it begins one."""
        book, walk = ticket.book, ticket.walk
        ticket.keys, ticket.weights = book.measured(walk)
        ticket.shared = shared = book.shared(ticket.keys)
        lane = book.where[ticket.keys[shared]].lane if shared >= 0 else None
        if lane is None:
            return None
        ticket.since = ticket.at - lane.last_at
        ticket.is_extension = shared == len(lane.keys) - 1
        # A tail that changes with each turn: what is shared grows all the same.
        goes_on = ticket.is_extension or 0 <= lane.fork < shared
        ticket.expect(lane, most=len(lane.keys) if goes_on else shared)
        return lane if goes_on else None

    def _open(self, ticket: Ticket) -> None:
        book, shared = ticket.book, ticket.shared
        spot = book.spot(ticket.keys[shared]) if shared >= 0 else book.root
        ticket.is_extension = False
        prior = shape_of(ticket.walk)
        ticket.growth = ticket.next_turn = (spot.grown + prior) / (spot.forks + 1.0)
        ticket.siblings = spot.forks
        spot.forks += 1
        ticket.lane = lane = Lane(book, spot, shared, ticket.at)
        if shared >= 0:
            parent = book.where[ticket.keys[shared]].lane
            lane.hold(() if parent is None else parent.held, shared)
            book.share(ticket.keys[: shared + 1], lane)
        book.add(ticket.keys, shared + 1, lane)
        self._fresh[id(lane)] = lane
        self._settle(lane, ticket)

    def _follow(self, ticket: Ticket, lane: Lane) -> None:
        book, shared = ticket.book, ticket.shared
        gap = ticket.at - lane.last_at
        lane.gaps.add(gap)
        book.gaps.add(gap)
        if not lane.turns + lane.partial:
            lane.spot.grown += 1
            del self._fresh[id(lane)]
            self._grown[id(lane)] = lane
        if ticket.is_extension:
            lane.turns += 1
        else:
            lane.partial += 1
        ticket.lane = lane
        turns = lane.turns + lane.partial
        ticket.next_turn = book.reach(turns)
        has_all = (lane.turns + shape_of(ticket.walk)) / (turns + 1.0)
        ticket.growth = ticket.next_turn * has_all
        lane.hold((), shared)
        book.forget(lane.keys[shared + 1 :])
        book.add(ticket.keys, shared + 1, lane)
        lane.last_at = ticket.at
        (self._grown if id(lane) in self._grown else self._fresh).move_to_end(id(lane))
        self._settle(lane, ticket)

    def _settle(self, lane: Lane, ticket: Ticket) -> None:
        walk = ticket.walk
        lane.keys, lane.walk = ticket.keys, walk
        size = _LANE_BYTES + walk.units[-1].held + _BLOCK_BYTES * len(walk.blocks)
        self._bytes += size - lane.size
        lane.size = size
        ticket.book.remember(lane)

    def _look_at_boundaries(self, ticket: Ticket, *, is_new: bool) -> None:
        """Note how long ago the ends of the tools, of the system prompt and of what a fork
        shares were last sent."""
        book, keys = ticket.book, ticket.keys
        wanted = book.heads(ticket.walk, ticket.keys)
        for index in wanted:
            tier = ticket.walk.blocks[index].tier
            ticket.stays[tier] = book.meet(tier, is_known=index <= ticket.shared)
        if not ticket.is_extension and ticket.shared >= 0 and ticket.shared not in wanted:
            wanted = (*wanted, ticket.shared)
        for index in wanted:
            spot = book.spot(keys[index])
            spot.lanes += is_new
            before = spot.last
            if before is None and index <= ticket.shared:
                before = ticket.at - ticket.since if ticket.since is not None else None
            gap = None if before is None else ticket.at - before
            if gap is not None:
                spot.gaps.add(gap)
            spot.last = ticket.at
            ticket.boundaries[index] = (spot, gap)

    def _shrink(self, newest: Lane | None) -> None:
        while len(self) > self._max_lanes or self._bytes > self._max_bytes:
            lanes = self._fresh if self._fresh else self._grown
            identity, lane = next(iter(lanes.items()))
            if lane is newest:
                if len(self) == 1:
                    return  # one prompt alone may be larger than the bound: it is in use
                lanes.move_to_end(identity)
                if len(lanes) == 1:
                    lanes = self._grown
                identity, lane = next(iter(lanes.items()))
            self._drop(lanes, identity, lane)

    def _drop(self, lanes: OrderedDict[int, Lane], identity: int, lane: Lane) -> None:
        del lanes[identity]
        self._bytes -= lane.size
        lane.book.drop(lane)

    def _close(self, book: Book) -> None:
        for lanes in (self._fresh, self._grown):
            for identity, lane in [one for one in lanes.items() if one[1].book is book]:
                self._drop(lanes, identity, lane)


def _head(walk: Walk) -> int:
    """The last block of the tools and the system prompt; -1 for none."""
    blocks = walk.blocks
    return next((i for i, one in enumerate(blocks) if one.tier == "messages"), len(blocks)) - 1
