"""Where marks pay: decided from a prompt, what was sent before, and a model's own prices.

A mark costs the premium of what it writes and earns the discount on each read of it before it
goes; marks themselves are free. What is read anyway is never written, so a candidate is worth

    reads * (1 - r) * tokens - (w - 1) * new tokens

over the stretch between the mark before it and itself, where `r` and `w` are the prices of
reading and of writing as shares of the price of input.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from .blocks import Mark, Tier, Walk
from .marks import legal
from .terms import LOOKBACK, Terms, expected_reads
from .view import View

__all__ = ["Plan", "Rules", "place"]

_CERTAIN = 0.95  # that a prefix is sent again whose owner says that it never changes
_MAYBE = 0.5  # that a system prompt or tools are sent again, where nothing is known
_ONE_SHOT = 0.2  # below this chance, nobody is expected to go on behind a prompt
_FEW, _ENOUGH = 2, 3  # siblings that show what a prompt's suffix is: in full mode, and else
_STEP = 128  # tokens in which OpenAI's automatic cache is read


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
        reasons: Why each of them stands where it does.
        kept: Every mark of the request, the caller's and the provider's own included.
        hit: The block up to which the cache is expected to be read.
        is_explicit_only: Turn OpenAI's own marks off: the prompt's end is not sent again.
        keyed: The block up to which a `prompt_cache_key` stands for the prompt.
        why_none: Why there is no mark of ours, where there is none.
    """

    marks: tuple[Mark, ...] = ()
    reasons: tuple[str, ...] = ()
    kept: tuple[Mark, ...] = ()
    hit: int | None = None
    predicted_read: int = 0
    predicted_write: int = 0
    is_explicit_only: bool = False
    keyed: int | None = None
    why_none: str = ""


class _Candidate:
    __slots__ = ("block", "chance", "since", "ttl", "value", "why")

    def __init__(self, block: int, why: str) -> None:
        self.block, self.why = block, why
        self.chance: dict[str, float] = {}
        self.since: float | None = None
        self.ttl, self.value = "", 0.0


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
        read = int(view.tokens[view.shared]) // _STEP * _STEP
        read = 0 if read < terms.least else read
    ends = [index for index, block in enumerate(walk.blocks) if block.tier != "messages"]
    head = ends[-1] if ends else 0
    return Plan(
        predicted_read=read,
        hit=view.shared if read else None,
        keyed=head if view.shared < 0 else min(head, view.shared),
        why_none="the provider caches by itself",
    )


class _Placing:
    """One decision. The steps of `plan` are in their order."""

    def __init__(self, walk: Walk, view: View, terms: Terms, rules: Rules) -> None:
        self._walk, self._view, self._terms, self._rules = walk, view, terms, rules
        blocks = walk.blocks
        self._is_anthropic = terms.style == "marks"
        self._ttls = [t for t in terms.writes if rules.ttls is None or t in rules.ttls]
        self._least = max(view.least, 0) or terms.least
        self._tail = next((i for i in range(len(blocks) - 1, -1, -1) if blocks[i].is_markable), -1)
        self._own = self._own_marks()
        self._implicit = [] if self._is_anthropic or rules.is_explicit else _implicit(walk)
        self._entry = self._deepest_entry()

    def plan(self) -> Plan:
        """Choose, order and account for it."""
        if not self._ttls or self._tail < 0:
            return self._nothing("no block of this prompt can be marked")
        if self._view.tokens[-1] * self._view.spread < self._least:
            return self._nothing(f"shorter than the {self._least:,} tokens that are kept")
        only = self._may_drop_the_end()
        candidates = self._accepted(self._candidates(), is_free=bool(self._implicit) and not only)
        if not candidates:
            return self._nothing("nothing that was sent twice is worth a mark")
        only = only and bool(candidates)
        best = sorted(candidates, key=lambda one: -one.value)
        asked = [Mark(one.block, one.ttl) for one in best]
        if self._is_anthropic:
            asked += [Mark(one.block, "5m") for one in best if one.ttl != "5m"]
            if self._rules.ttls is not None and "5m" not in self._rules.ttls:
                asked = asked[: len(best)]
        marks = legal(self._walk, asked, explicit_only=only)
        reasons = {one.block: one.why for one in candidates}
        return self._told(marks, tuple(reasons[mark.block] for mark in marks), only)

    # What is there without us.

    def _own_marks(self) -> dict[int, str]:
        walk = self._walk
        if not walk.own_marks:
            return {}
        own = {i: block.mark for i, block in enumerate(walk.blocks) if block.mark is not None}
        if walk.whole_mark is not None and self._tail >= 0:
            own.setdefault(self._tail, walk.whole_mark)
        return own

    def _deepest_entry(self) -> int | None:
        """The longest prefix that a mark of ours could reach."""
        blocks = self._walk.blocks
        implicit = set(self._implicit)
        found = [i for i in self._view.alive if blocks[i].is_markable or i in implicit]
        return max(found, default=None)

    def _read_by(self, marks: Collection[int]) -> int | None:
        """The longest live prefix that these marks find."""
        blocks, alive = self._walk.blocks, self._view.alive
        if not self._is_anthropic:
            looked_up = {*marks, *self._implicit}
            return max((i for i in alive if i in looked_up), default=None)
        found = None
        for mark in marks:
            first = blocks[mark].position - LOOKBACK
            for index in alive:
                if index <= mark and blocks[index].position > first:
                    found = index if found is None else max(found, index)
        return found

    def _may_drop_the_end(self) -> bool:
        """Whether what stands behind the shared part is sent once only."""
        view, rules = self._view, self._rules
        if self._is_anthropic or rules.is_explicit or not rules.may_set_mode:
            return False
        enough = _FEW if rules.is_full else _ENOUGH
        is_shown = view.siblings >= enough and not view.turns and view.growth < _ONE_SHOT
        return is_shown and view.shared >= 0

    # Where a mark could stand.

    def _candidates(self) -> list[_Candidate]:
        view, rules, blocks = self._view, self._rules, self._walk.blocks
        found: dict[int, _Candidate] = {}
        for index, (spot, since) in view.boundaries.items():
            is_static = blocks[index].tier in rules.static and index != view.shared
            prior = _CERTAIN if is_static else _MAYBE
            one = _Candidate(self._markable(index), _why(blocks[index].tier))
            one.since = 0.0 if is_static else since
            for ttl in self._ttls:
                one.chance[ttl] = spot.gaps.within(self._terms.seconds[ttl], prior=prior)
            if one.block >= 0 and (since is not None or is_static or rules.is_full):
                found[one.block] = one
        if view.shared >= 0 and view.turns:
            self._add_lane(found, view.shared, "shared with the request before", view.since)
        if self._entry is not None and self._entry not in found:
            self._add_lane(found, self._entry, "written before", 0.0)
        if rules.is_full:
            self._add_lane(found, self._tail, "the end, which the next turn begins with", 0.0)
        return [found[index] for index in sorted(found)]

    def _add_lane(
        self, found: dict[int, _Candidate], index: int, why: str, since: float | None
    ) -> None:
        """A place within the conversation, which its next turn should reach."""
        view = self._view
        index = self._markable(index)
        if index < 0 or since is None:
            return
        one = found.setdefault(index, _Candidate(index, why))
        one.since = since if one.since is None else min(one.since, since)
        goes_on = 1.0 if index < view.shared or view.turns > 1 else view.growth
        if index == self._tail and index > view.shared:
            goes_on = view.growth
        for ttl in self._ttls:
            chance = goes_on * view.goes_on(self._terms.seconds[ttl])
            one.chance[ttl] = max(one.chance.get(ttl, 0.0), chance)

    def _markable(self, index: int) -> int:
        """The last block up to `index` that can be marked; -1 for none."""
        blocks = self._walk.blocks
        while index >= 0 and not blocks[index].is_markable:
            index -= 1
        return index

    # Which of them pay.

    def _accepted(self, candidates: list[_Candidate], *, is_free: bool) -> list[_Candidate]:
        """Those worth their price, with the time to live and the value of each.

        Args:
            is_free: The provider writes up to the end in any case.
        """
        view, tokens = self._view, self._view.tokens
        places = [*self._own, *(one.block for one in candidates)]
        hit = self._read_by(places)
        covered = 0.0 if hit is None else tokens[hit]
        before, accepted = 0.0, []
        fixed = sorted(self._own)
        for one in candidates:
            while fixed and fixed[0] <= one.block:
                before = max(before, tokens[fixed.pop(0)])
            end = tokens[one.block]
            if one.block in self._own or end * view.spread < self._least:
                continue
            new = max(0.0, end - max(before, covered))
            one.ttl, one.value = self._best(one, end - before, 0.0 if is_free else new)
            if one.block == self._entry and self._read_by(self._own) != hit:
                one.value += (1.0 - self._terms.read) * covered  # what it finds now
            if one.value > 0:
                accepted.append(one)
                before = end
        return accepted

    def _best(self, one: _Candidate, stretch: float, new: float) -> tuple[str, float]:
        """The time to live that pays best, and what it is worth, in tokens of input."""
        terms, best, most = self._terms, "", 0.0
        held = self._view.alive.get(one.block)
        for ttl in self._ttls:
            if not self._is_seen_within(one, terms.seconds[ttl]):
                continue
            reads = expected_reads(one.chance[ttl] * self._view.trust)
            value = reads * (1.0 - terms.read) * stretch - (terms.writes[ttl] - 1.0) * new
            if held is not None and held.ttl == ttl:
                value += 1.0  # it is there already: no reason to change it
            if value > most:
                best, most = ttl, value
        return best, most

    def _is_seen_within(self, one: _Candidate, seconds: float) -> bool:
        """Whether it was sent before in time, which only the full mode does without."""
        if self._rules.is_full:
            return True
        return one.since is not None and one.since < seconds

    # What comes of it.

    def _nothing(self, why: str) -> Plan:
        plan = self._told((), (), False)
        return Plan(
            kept=plan.kept,
            hit=plan.hit,
            predicted_read=plan.predicted_read,
            predicted_write=plan.predicted_write,
            why_none=why,
        )

    def _told(self, marks: tuple[Mark, ...], reasons: tuple[str, ...], only: bool) -> Plan:
        tokens = self._view.tokens
        kept = dict(self._own)
        if self._implicit and not only:
            kept.setdefault(self._implicit[-1], self._walk.default_ttl)
        else:
            self._implicit = []
        kept |= {mark.block: mark.ttl for mark in marks}
        hit = self._read_by(kept)
        read = self._counted(hit) if hit is not None else 0
        last = max((i for i in kept if tokens[i] >= self._least), default=None)
        written = 0 if last is None else max(0, int(tokens[last]) - read)
        return Plan(
            marks=marks,
            reasons=reasons,
            kept=tuple(Mark(*one) for one in sorted(kept.items())),
            hit=hit,
            predicted_read=read,
            predicted_write=written,
            is_explicit_only=only,
        )

    def _counted(self, hit: int) -> int:
        """Tokens up to a live prefix, as the provider counted them where it did."""
        counted = self._view.alive[hit].tokens
        return int(self._view.tokens[hit]) if counted is None else counted


def _why(tier: Tier) -> str:
    names = {"tools": "the end of the tools", "system": "the end of the system prompt"}
    return names.get(tier, "the end of what several conversations share")


def _implicit(walk: Walk) -> list[int]:
    """Where OpenAI marks by itself: behind the developer's messages at the beginning, each
    message of the user, and the replies of tools."""
    blocks, found, is_said = walk.blocks, [], False
    for index, block in enumerate(blocks):
        is_said = is_said or block.is_markable
        after = blocks[index + 1] if index + 1 < len(blocks) else None
        if after is not None and after.path[:2] == block.path[:2]:
            continue
        is_head = block.tier == "system" and (after is None or after.tier != "system")
        if is_head or (is_said and block.tier == "messages"):
            found.append(index)
        is_said = False
    return found
