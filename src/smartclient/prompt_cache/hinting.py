"""One request's hints, from its prompt to what its reply said of them.

What a policy needs, without flows: read the prompt, find its lane, place, write, learn.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from .._cache_hints import CacheHints
from .._call import Attempt
from .._errors import RefusedError
from ..catalog.facts import ModelFacts
from ..report import CacheReport
from .account import Account, account
from .asking import answer, asking
from .blocks import Walk, path_text
from .book import Book, outline_of, rules_of
from .flights import Flights
from .lanes import Lanes, Ticket
from .marks import allows_explicit_only, cache_key, check_own_marks, marked
from .placing import Plan, Rules, place
from .terms import Terms, terms_of
from .verifying import begun, ended
from .walk import walk

__all__ = ["Hinted", "Hinter"]

_BLOCKED_FOR = 3600.0  # seconds without hints, after they were refused


class Hinter:
    """What a client knows of its prompts; for any number of threads.

    Args:
        hints: What the user allows.
    """

    def __init__(self, hints: CacheHints) -> None:
        self.hints = hints
        self.lanes = Lanes()
        self.flights = Flights()

    def look(
        self,
        payload: Mapping[str, Any],
        *,
        endpoint: str,
        model: str,
        scope: Hashable,
        headers: Iterable[tuple[str, str]],
        facts: ModelFacts | None,
        now: float,
    ) -> Hinted | None:
        """Read a request and decide on its hints; `None` where there is nothing to hint at.

        Args:
            scope: Whom the provider takes the caller for: prompts of one are not another's.

        Raises:
            RefusedError: The caller's own marks would be refused.
        """
        book = self.lanes.book((scope, endpoint, model), lambda: terms_of(facts, endpoint=endpoint))
        outline, rules = outline_of(payload), rules_of(payload)
        likely = None if outline is None else book.likely(outline)
        kin = None if rules is None else book.likely(rules)
        like = likely or kin or book.newest()
        before = None if like is None else like.walk
        prompt = walk(payload, endpoint=endpoint, model=model, headers=headers, before=before)
        if prompt is None or not prompt.blocks:
            return None
        if book.terms is None:
            return None  # what such a model takes and refuses is its own
        why = check_own_marks(prompt) if prompt.own_marks else None
        if why is not None:
            raise RefusedError(f"not sent: {why}")
        ticket = self.lanes.enter(book, prompt, now, likely=likely, kin=kin)
        for known in (outline, rules):
            if known is not None:
                self.lanes.outline(book, known, ticket)
        hinted = Hinted(self, book.terms, facts, ticket, payload)
        hinted.plan_anew(now)
        return hinted


class Hinted:
    """One call's hints; they stay the same for all its attempts.

    Attributes:
        payload: What is sent: the caller's own where nothing is changed.
    """

    __slots__ = (
        "_facts",
        "_flying",
        "_given",
        "_hinter",
        "_new",
        "_overlaps",
        "_terms",
        "_ticket",
        "payload",
        "plan",
    )

    def __init__(
        self,
        hinter: Hinter,
        terms: Terms,
        facts: ModelFacts | None,
        ticket: Ticket,
        payload: Mapping[str, Any],
    ) -> None:
        self._hinter, self._terms, self._facts = hinter, terms, facts
        self._ticket, self._given = ticket, payload
        self._new: list[bytes] = []
        self._flying: list[bytes] = []
        self._overlaps = 0
        self.payload, self.plan = payload, Plan()

    @property
    def walk(self) -> Walk:
        return self._ticket.walk

    @property
    def book(self) -> Book:
        return self._ticket.book

    @property
    def is_edited(self) -> bool:
        return self.payload is not self._given

    def plan_anew(self, now: float) -> None:
        """Decide by what is known now; not once an attempt was sent."""
        hints, book, given = self._hinter.hints, self.book, self._given
        blocked = book.blocked_until is not None and now < book.blocked_until
        rules = Rules(
            is_full=hints.mode == "full",
            static=hints.static,
            ttls=hints.ttls,
            may_set_mode=allows_explicit_only(given),
            is_explicit=self.walk.max_marks == 4 and self._terms.style == "breakpoints",
        )
        view = self._ticket.view(now)
        plan = place(self.walk, view, self._terms, rules)
        if blocked:
            self.leave("the provider refused our marks")
            return
        self.plan = plan
        only = plan.is_explicit_only
        self.payload = marked(given, self.walk, plan.marks, explicit_only=only)
        if plan.keyed is not None and "prompt_cache_key" not in given:
            self._set_key(plan.keyed, now)
        if hints.diagnostics:
            self.payload = asking(self.payload, self.walk, self._terms, self._ticket.reply_id)

    def _set_key(self, index: int, now: float) -> None:
        """Spread what begins alike over keys, each of which one machine can serve."""
        shard = self._hinter.lanes.shard(self._ticket, index, now)
        # Without a key the provider goes by the beginning itself, which is as good for the
        # first machine, and better where the prompt turns out to change behind it; a key on a
        # second call would lead away from where the first one went.
        if shard:
            key = cache_key(self.walk, index, shard)
            self.payload = {**self.payload, "prompt_cache_key": key}

    # Cold fan-outs.

    def wanted(self) -> list[bytes]:
        """Prefixes that are worth waiting for while another call writes them, the longest
        first."""
        ticket, plan, terms = self._ticket, self.plan, self._terms
        first = -1 if plan.hit is None else plan.hit
        ratio = self.book.ratio
        return [
            ticket.keys[index]
            for index in range(len(ticket.keys) - 1, first, -1)
            if ticket.weights[index] * ratio - plan.predicted_read >= terms.least
        ]

    def written(self) -> list[bytes]:
        """Prefixes that this call will write."""
        ticket, plan, terms = self._ticket, self.plan, self._terms
        first = -1 if plan.hit is None else plan.hit
        ratio = self.book.ratio
        return [
            ticket.keys[mark.block]
            for mark in plan.kept
            if mark.block > first and ticket.weights[mark.block] * ratio >= terms.least
        ]

    # What became of it.

    def sent(self) -> None:
        """An attempt is sent; `landed` must follow."""
        book, keys = self.book, self._ticket.keys
        with self._hinter.lanes.lock:
            writing = book.writing
            if writing:
                self._overlaps = max((writing.get(key, 0) for key in keys), default=0)
            self._flying = self.written()
            for key in self._flying:
                writing[key] = writing.get(key, 0) + 1

    def landed(self) -> None:
        """Its reply has begun, or never will; a plain call, safe to make twice."""
        flying, self._flying = self._flying, []
        with self._hinter.lanes.lock:
            writing = self.book.writing
            for key in flying:
                left = writing.pop(key) - 1
                if left:
                    writing[key] = left

    def begun(self, started: float) -> None:
        """A reply to the request that was sent at `started` has begun."""
        with self._hinter.lanes.lock:
            keys, lane = self._ticket.keys, self._ticket.lane
            self._new = begun(self.book, keys, self.plan, self._terms, started)
            if lane is not None:
                known, held = lane.keys, [mark.block for mark in self.plan.kept]
                here = [i for i in held if i < len(known) and known[i] == keys[i]]
                lane.hold(here, len(known))

    def ended(
        self,
        attempt: Attempt,
        *,
        is_failed: bool,
        now: float,
        reply_id: str | None = None,
        diagnosed: str | bytes | None = None,
    ) -> CacheReport:
        """Its reply has ended; what became of the cache.

        Args:
            diagnosed: JSON in which the provider speaks of its cache.
        """
        ticket, plan, usage = self._ticket, self.plan, attempt.usage
        # A tool that ran at the provider read and wrote more than this prompt; and what
        # contradicts itself teaches nothing.
        is_odd = attempt.changes_input or (usage is not None and usage.inconsistent is not None)
        lane = ticket.lane
        with self._hinter.lanes.lock:
            if lane is not None and lane.walk is ticket.walk:  # nobody went on meanwhile
                lane.reply_id = reply_id
            ended(
                self.book,
                ticket.keys,
                ticket.weights,
                plan,
                self._terms,
                None if is_odd else usage,
                new=self._new,
                is_failed=is_failed and usage is None,
                now=now,
            )
        return self.report(attempt, answer(diagnosed))

    def refused(self, now: float) -> None:
        """The provider takes none of our hints: it is spared them for a while."""
        self.book.blocked_until = now + _BLOCKED_FOR

    def leave(self, why: str) -> None:
        """Send it as its caller made it."""
        self.plan, self.payload = Plan(why_none=why), self._given

    def report(
        self, attempt: Attempt | None = None, provider: Mapping[str, Any] | None = None
    ) -> CacheReport:
        """As far as it is known."""
        plan, usage = self.plan, None if attempt is None else attempt.usage
        told = Account()
        if attempt is not None:
            told = account(
                self._ticket,
                plan,
                self._terms,
                self._facts,
                attempt,
                overlaps=self._overlaps,
                diagnosis=provider,
            )
        return CacheReport(
            placed=tuple(path_text(self.walk.blocks[mark.block].path) for mark in plan.marks),
            unmarked=plan.why_none or None,
            predicted_read=plan.predicted_read,
            actual_read=usage.cache_read if usage is not None else None,
            miss=told.miss,
            why=told.why,
            drift_path=told.drift_path,
            drift=told.drift,
            savings=told.savings,
            provider=provider,
        )
