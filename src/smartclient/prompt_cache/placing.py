"""Where marks pay: decided from a prompt, what was sent before, and a model's own prices.

A mark costs the premium of what it writes and earns the discount on each read of it before it
goes; marks themselves are free. What is read anyway is never written, so a candidate is worth

    reads * (1 - r) * tokens - (w - 1) * new tokens

over the stretch between the mark before it and itself, where `r` and `w` are the prices of
reading and of writing as shares of the price of input.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from .blocks import Mark, Path, Tier, Walk
from .book import Spot
from .marks import legal
from .terms import LOOKBACK, STEP, Terms, expected_reads
from .view import View

__all__ = ["Plan", "Rules", "place"]

_CERTAIN = 0.95  # that a prefix is sent again whose owner says that it never changes
_MAYBE = 0.5  # that a beginning is sent again in time, where nothing is known
_ONE_SHOT = 0.2  # below this chance, nobody is expected to go on behind a prompt
_FEW, _ENOUGH = 2, 3  # siblings that show what a prompt's suffix is: in full mode, and else


class Rules(Struct, frozen=True, kw_only=True):
    """What the user and the caller allow.

    Attributes:
        is_full: Mark what is likely to be sent again, not only what was sent twice.
        static: Parts of the prompt that never change.
        ttls: Times to live that may be chosen; `None` for all.
        may_set_mode: OpenAI's mode is the caller's choice and was not made.
        is_explicit: The caller has turned OpenAI's own marks off.
    """

    is_full: bool = False
    static: tuple[Tier, ...] = ()
    ttls: tuple[str, ...] | None = None
    may_set_mode: bool = True
    is_explicit: bool = False


class Plan(Struct, frozen=True, kw_only=True):
    """What is put into a request, and what is expected of it.

    Attributes:
        marks: Of ours, in the order of their blocks.
        kept: Every mark of the request, the caller's and the provider's own included.
        hit: The block up to which the cache is expected to be read.
        is_explicit_only: Turn OpenAI's own marks off: nobody would read what they write.
        keyed: The block up to which a `prompt_cache_key` stands for the prompt.
        why_none: Why there is no mark of ours, where there is none.
    """

    marks: tuple[Mark, ...] = ()
    kept: tuple[Mark, ...] = ()
    hit: int | None = None
    predicted_read: int = 0
    predicted_write: int = 0
    is_explicit_only: bool = False
    keyed: int | None = None
    why_none: str = ""


class _Candidate:
    """A place for a mark: how likely it is read again, by time to live, and what that is worth.

    Attributes:
        stretch: Tokens from the mark before it.
        found: What it saves this very request.
        reads: How often it is expected to be read.
    """

    __slots__ = ("block", "chance", "found", "reads", "since", "stretch", "ttl", "value")

    def __init__(self, block: int, since: float | None) -> None:
        self.block, self.since = block, since
        self.chance: dict[str, float] = {}
        self.ttl, self.value = "", 0.0
        self.stretch = self.found = self.reads = 0.0


def place(walk: Walk, view: View, terms: Terms, rules: Rules) -> Plan:
    """Where to mark this request. Pure; see `Plan`."""
    if terms.style == "automatic":
        return _automatic(walk, view, terms)
    return _Placing(walk, view, terms, rules).plan()


def _automatic(walk: Walk, view: View, terms: Terms) -> Plan:
    """What a cache without marks reads by itself, and by what it may be reached."""
    read = 0
    is_kept = view.since is not None and view.since < terms.longest
    if view.shared >= 0 and is_kept:
        read = int(view.tokens(view.shared)) // STEP * STEP
        read = 0 if read < terms.least else read
    head = max(
        (index for index in view.boundaries if walk.blocks[index].tier != "messages"), default=0
    )
    return Plan(
        predicted_read=read,
        hit=view.shared if read else None,
        keyed=head if view.shared < 0 else min(head, view.shared),
        why_none="the provider caches by itself",
    )


class _Placing:
    """One decision. The steps of `plan` are in their order."""

    __slots__ = (
        "_entry",
        "_has_implicit",
        "_is_anthropic",
        "_least",
        "_next_turn",
        "_own",
        "_rules",
        "_spread",
        "_tail",
        "_terms",
        "_ttls",
        "_view",
        "_walk",
    )

    def __init__(self, walk: Walk, view: View, terms: Terms, rules: Rules) -> None:
        self._walk, self._view, self._terms, self._rules = walk, view, terms, rules
        self._is_anthropic = terms.style == "marks"
        self._has_implicit = not self._is_anthropic and not rules.is_explicit
        allowed = rules.ttls
        self._ttls = [t for t in terms.writes if allowed is None or t in allowed]
        self._next_turn = {ttl: view.goes_on(terms.seconds[ttl]) for ttl in self._ttls}
        self._least = view.least or terms.least
        self._spread = 1.0 if view.least else view.spread  # what was learned is known
        self._tail = self._markable(len(walk.blocks) - 1)
        self._own = self._own_marks() if walk.own_marks else {}
        self._entry = max((i for i in view.alive if self._is_reachable(i)), default=None)

    def plan(self) -> Plan:
        """Choose, order and account for it."""
        view = self._view
        if not self._ttls or self._tail < 0:
            return self._told((), False, "no block of this prompt can be marked")
        if view.tokens(-1) * self._spread < self._least:
            why = f"shorter than the {self._least:,} tokens that are kept"
            return self._told((), False, why)
        only = self._may_drop_the_end()
        if only:
            self._has_implicit = False
        chosen = self._accepted(self._candidates(), is_free=self._has_implicit)
        if not chosen:
            return self._told((), only, "nothing that was sent twice is worth a mark")
        self._thin(chosen, 4 if only else self._walk.max_marks)
        chosen.sort(key=lambda one: -one.value)
        asked = [Mark(one.block, one.ttl) for one in chosen]
        if self._is_anthropic and "5m" in self._ttls:  # where the order forbids more
            asked += [Mark(one.block, "5m") for one in chosen if one.ttl != "5m"]
        marks = legal(self._walk, asked, explicit_only=only)
        why = "" if marks else "the request's own marks leave no place for one"
        return self._told(marks, only, why)

    # What is there without us.

    def _own_marks(self) -> dict[int, str]:
        walk = self._walk
        own = {i: block.mark for i, block in enumerate(walk.blocks) if block.mark is not None}
        if walk.whole_mark is not None and self._tail >= 0:
            own.setdefault(self._tail, walk.whole_mark)
        return own

    def _is_reachable(self, index: int) -> bool:
        return self._walk.blocks[index].is_markable or self._is_implicit(index)

    def _is_implicit(self, index: int) -> bool:
        """Whether OpenAI marks here by itself: behind the developer's messages at the beginning,
        each message of the user, and the replies of tools."""
        if not self._has_implicit:
            return False
        blocks = self._walk.blocks
        block = blocks[index]
        after = blocks[index + 1] if index + 1 < len(blocks) else None
        if after is not None and after.path[:2] == block.path[:2]:
            return False
        if block.tier == "system":
            return after is None or after.tier != "system"
        return block.tier == "messages" and self._markable(index, within=block.path[:2]) >= 0

    def _markable(self, index: int, within: Path | None = None) -> int:
        """The last block up to `index` that can be marked; -1 for none."""
        blocks = self._walk.blocks
        while index >= 0 and not blocks[index].is_markable:
            index -= 1
            if within is not None and blocks[index].path[:2] != within:
                return -1
        return index

    def _read_by(self, marks: Iterable[int]) -> int | None:
        """The longest live prefix that these marks find."""
        alive = self._view.alive
        if not alive:
            return None
        if not self._is_anthropic:
            asked = set(marks)
            return max((i for i in alive if i in asked or self._is_implicit(i)), default=None)
        blocks, found = self._walk.blocks, -1
        for mark in marks:
            first = blocks[mark].position - LOOKBACK
            for index in alive:
                if found < index <= mark and blocks[index].position > first:
                    found = index
        return found if found >= 0 else None

    def _may_drop_the_end(self) -> bool:
        """Whether nobody is expected to read what OpenAI's own mark writes at the end: what
        stands there is sent once only, or the next turn comes when it is gone."""
        view, rules = self._view, self._rules
        if not self._has_implicit or not rules.may_set_mode:
            return False
        enough = _FEW if rules.is_full else _ENOUGH
        if not view.turns:
            return view.siblings >= enough and view.growth < _ONE_SHOT
        in_time = view.growth * self._next_turn.get(self._walk.default_ttl, 1.0)
        return view.gaps.total >= enough and in_time < _ONE_SHOT

    # Where a mark could stand.

    def _candidates(self) -> list[_Candidate]:
        view, is_full = self._view, self._rules.is_full
        found: dict[int, _Candidate] = {}
        for index, (spot, since) in view.boundaries.items():
            self._add_boundary(found, index, spot, since)
        if view.shared >= 0 and view.turns:
            self._add_turn(found, view.shared, view.since)  # the request before had it
        entry = self._entry
        if entry is not None and entry not in found:
            self._add_turn(found, entry, 0.0)
        if is_full:
            self._add_turn(found, self._tail, 0.0)  # the next turn begins with all of this one
        return [found[index] for index in sorted(found)]

    def _add_boundary(
        self, found: dict[int, _Candidate], index: int, spot: Spot, since: float | None
    ) -> None:
        """The end of what many conversations may begin with."""
        tier, rules = self._walk.blocks[index].tier, self._rules
        is_static = tier in rules.static and (tier != "messages")
        if since is None and not is_static and not rules.is_full:
            return
        index = self._markable(index)
        if index < 0:
            return
        found[index] = one = _Candidate(index, 0.0 if is_static else since)
        prior, seconds = _MAYBE, self._terms.seconds
        if is_static:
            prior = _CERTAIN
        elif since is None:
            prior = self._view.stays.get(tier, _MAYBE)
        # What only this conversation begins with is sent again if it goes on.
        goes_on = self._view.next_turn if self._view.turns and spot.lanes < 2 else 1.0
        for ttl in self._ttls:
            one.chance[ttl] = goes_on * spot.gaps.within(seconds[ttl], prior=prior)

    def _add_turn(self, found: dict[int, _Candidate], index: int, since: float | None) -> None:
        """A place within the conversation, which its next turn should reach."""
        view = self._view
        index = self._markable(index)
        if index < 0 or since is None or self._is_implicit(index):
            return  # an implicit mark is looked up, and the last one written, without ours
        one = found.get(index)
        if one is None:
            one = found[index] = _Candidate(index, since)
        elif one.since is None or since < one.since:
            one.since = since
        goes_on = view.growth if index > view.shared else view.next_turn
        chances = one.chance
        for ttl, soon in self._next_turn.items():
            chance = goes_on * soon
            if chance > chances.get(ttl, 0.0):
                chances[ttl] = chance

    # Which of them pay.

    def _accepted(self, candidates: list[_Candidate], *, is_free: bool) -> list[_Candidate]:
        """Those worth their price, with the time to live and the value of each.

        Args:
            is_free: The provider writes up to the end in any case.
        """
        view, own = self._view, self._own
        hit = self._read_by([*own, *(one.block for one in candidates)])
        # What we believe to be held may not be: then it is written again.
        covered = 0.0 if hit is None else view.tokens(hit) * view.trust
        fixed = sorted(own)
        before, accepted = 0.0, []
        for one in candidates:
            while fixed and fixed[0] <= one.block:
                before = max(before, view.tokens(fixed.pop(0)))
            end = view.tokens(one.block)
            if one.block in own or end * self._spread < self._least:
                continue
            new = 0.0 if is_free else max(0.0, end - max(before, covered))
            if one.block == self._entry and self._read_by(own) != hit:
                one.found = (1.0 - self._terms.read) * covered
            one.stretch = end - before
            one.ttl, one.value = self._best(one, new)
            if one.value > 0:
                accepted.append(one)
                before = end
        return accepted

    def _best(self, one: _Candidate, new: float) -> tuple[str, float]:
        """The time to live that pays best, and what it is worth, in tokens of input.

        Args:
            new: Tokens of its stretch that it would write.
        """
        terms, trust, best, most = self._terms, self._view.trust, "", 0.0
        held = self._view.alive.get(one.block)
        for ttl in self._ttls:
            if not self._rules.is_full and (one.since is None or one.since >= terms.seconds[ttl]):
                continue  # it was not sent before in time, which only the full mode does without
            reads = expected_reads(one.chance.get(ttl, 0.0) * trust)
            value = one.found + reads * (1.0 - terms.read) * one.stretch
            value -= (terms.writes[ttl] - 1.0) * new
            if held is not None and held.ttl == ttl:
                value += 1.0  # it is there already: no reason to change it
            if value > most:
                best, most, one.reads = ttl, value, reads
        return best, most

    def _thin(self, chosen: list[_Candidate], most: int) -> None:
        """Leave out, in place, what is missed least where there are too many: what one mark
        reads, the next one reads too, if it is read."""
        own = list(self._own)
        while len(chosen) > most - self._walk.own_marks > 0:
            blocks = [one.block for one in chosen]
            hit = self._read_by([*own, *blocks])
            missed = []
            for one, after in zip(chosen, [*chosen[1:], None], strict=True):
                worth = one.value if after is None else 0.0
                if after is not None:
                    worth = (one.reads - after.reads) * (1.0 - self._terms.read) * one.stretch
                    if self._read_by([*own, *(i for i in blocks if i != one.block)]) != hit:
                        worth += one.found
                missed.append(worth)
            place = missed.index(min(missed))
            if place + 1 < len(chosen):
                chosen[place + 1].stretch += chosen[place].stretch
            del chosen[place]

    # What comes of it.

    def _told(self, marks: tuple[Mark, ...], only: bool, why: str) -> Plan:
        view = self._view
        kept = dict(self._own)
        if self._has_implicit:
            last = len(self._walk.blocks) - 1
            while last >= 0 and not self._is_implicit(last):
                last -= 1
            if last >= 0:
                kept.setdefault(last, self._walk.default_ttl)
        for mark in marks:
            kept[mark.block] = mark.ttl
        hit = self._read_by(kept)
        read = 0
        if hit is not None:
            counted = view.alive[hit].tokens
            read = int(view.tokens(hit)) if counted is None else counted
        end = max(kept, default=-1)
        is_kept = end >= 0 and view.tokens(end) >= self._least
        return Plan(
            marks=marks,
            kept=tuple(Mark(*one) for one in sorted(kept.items())),
            hit=hit,
            predicted_read=read,
            predicted_write=max(0, int(view.tokens(end)) - read) if is_kept else 0,
            is_explicit_only=only,
            why_none=why,
        )
