"""Make a conversation fit into its model's context window."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from .calibration import Calibrator
from .conversation import Conversation, Group, grouped, read
from .counting import SHARED, Endpoint, Tokenizers, count, highest
from .cutting import Bounds, Cut, cuts
from .summaries import Found, SummaryError, as_message, look_up, placed
from .tally import plain

if TYPE_CHECKING:
    from ..catalog import Catalog

    CatalogLike: TypeAlias = (
        Catalog | Mapping[str, Mapping[str, Any]] | str | os.PathLike[str] | None
    )

__all__ = ["Fitted", "TooLongError", "fit"]

_STEPS = 16  # in which a correction moves, so that what is learned seldom moves a cut
_ANSWERS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class TooLongError(ValueError):
    """What must stay of a conversation is more than its window holds.

    Attributes:
        needed: Tokens of what must stay.
        allowed: Tokens that a request may have.
        path: Of the longest message that must stay.
        longest: Its tokens.
    """

    def __init__(self, *, needed: int, allowed: int, path: str, longest: int) -> None:
        self.needed, self.allowed, self.path, self.longest = needed, allowed, path, longest
        super().__init__(
            f"cannot fit: {needed:,} tokens must stay and {allowed:,} are allowed; {path} alone "
            f"has {longest:,}: shorten it, reserve less, or take a model with a larger window"
        )


class Fitted(Struct, frozen=True, kw_only=True):
    """A conversation that fits, and what was done to it.

    Attributes:
        messages: Those that stay, each the object that was given; with a summary, one of them
            or a new one holds it.
        payload: The request with these messages; `None` where only messages were given.
        dropped: The messages that are gone.
        summary: What stands for them; `None` for nothing.
        unsummarised: Where `memory` lacks the summary: the messages that it would stand for.
        memory_key: Where in `memory` it is looked for.
        tokens: Input tokens of the request now, as many as it may be.
        tokens_before: The same, as it was given.
        allowed: Input tokens that a request may have.
        num_cuts: How often the conversation was cut since it began.
        is_new_cut: Whether the last cut is of this very request, so that the provider's cache
            is read only up to it.
    """

    messages: list[Any]
    payload: dict[str, Any] | None
    dropped: list[Any]
    summary: Any
    unsummarised: list[Any]
    memory_key: str | None
    tokens: int
    tokens_before: int
    allowed: int
    num_cuts: int
    is_new_cut: bool


class _Sizes(Struct, frozen=True):
    """Tokens, as many as they may be.

    Attributes:
        body: Of this one without its messages.
        messages: Of each message.
    """

    body: int
    messages: list[int]

    def of(self, places: Sequence[int]) -> int:
        """Of the messages at `places`."""
        return sum(self.messages[place] for place in places)


class _Plan(Struct, frozen=True, kw_only=True):
    """What goes and what stays, by places in the conversation.

    Attributes:
        gone: All that is dropped.
        kept: The rest, in order.
        fixed: Of the rest, what the developer said.
        turns: Where the user's turns begin.
        sections: The messages that each cut drops.
        is_new_cut: Whether the last cut is of the last message.
    """

    gone: set[int]
    kept: list[int]
    fixed: frozenset[int]
    turns: frozenset[int]
    sections: list[list[Any]]
    is_new_cut: bool

    def summary_place(self) -> tuple[int, bool]:
        """Behind what was dropped last, counted in `kept`; and whether a turn begins there."""
        newest = max(self.gone)
        return next(
            (number, place in self.turns)
            for number, place in enumerate(self.kept)
            if place > newest and place not in self.fixed
        )


def fit(
    conversation: Sequence[Any] | Mapping[str, Any],
    model: str | None = None,
    *,
    reserve: int | None = None,
    limit: int | None = None,
    target: float = 0.6,
    pinned: int = 0,
    system: Any = None,
    tools: Sequence[Any] | None = None,
    summarise: Callable[[list[Any]], Any] | None = None,
    memory: MutableMapping[str, Any] | None = None,
    summary_tokens: int = 1_000,
    endpoint: Endpoint | None = None,
    catalog: CatalogLike = None,
    calibrator: Calibrator | None = None,
    tokenizers: Tokenizers = SHARED,
) -> Fitted:
    """Drop the oldest turns of a conversation that outgrew its model's context window.

    What is given is never changed, and what fits comes back as it is. Kept always: the system
    prompt and other messages of the developer, the last turn of the user, the last step of the
    model, and a call of a tool together with its result.

    The places of the cuts follow from the messages alone. So give the whole conversation each
    time, not what was fitted before: between two cuts each request then begins with the one
    before it, and the provider's cache is read.

    Args:
        conversation: Messages of Anthropic Messages or Chat Completions, items of Responses,
            or a whole request of one of them.
        model: Whose window; `None` takes the request's.
        reserve: Tokens for the answer; `None` takes the request's `max_tokens`, or what its
            format calls it.
        limit: Tokens of input and output together; `None` takes the catalog's window.
        target: A cut goes down to this share of what can be cut. Less cuts deeper and more
            seldom, and loses less of the cache; 1 drops as little as possible each time.
        pinned: How many messages at the beginning stay for good, developer's not counted; a
            turn or step that they end in stays whole. End them with an answer where the roles
            have to take turns.
        system: The system prompt, where only messages are given.
        tools: Definitions of tools, likewise.
        summarise: Is given the messages that a cut drops, the summary before it first, and
            returns a text that stands for them, or a message. Needs `memory`.
        memory: Where summaries are kept, by a digest of what they stand for: a dict that lives
            as long as the conversation. Without `summarise`, `unsummarised` says what to put
            in at `memory_key`. `None` leaves nothing in the place of what is dropped.
        summary_tokens: Tokens that are held for the summary; a longer one is refused.
        endpoint: The format; `None` tells it from the fields.
        catalog: Facts about models; `None` takes ours.
        calibrator: What earlier calls taught about counts.
        tokenizers: What counts the texts.

    Raises:
        SummaryError: A summary is empty, too long, or neither text nor message.
        TooLongError: What must stay does not fit.
        TypeError: It is no list of messages and no request.
        ValueError: The window is not known, or an argument cannot be.
    """
    name = _model(conversation, model)
    _check(target, pinned, summary_tokens, asks=summarise is not None, remembers=memory is not None)
    given = read(conversation, model=name, endpoint=endpoint, system=system, tools=tools)
    allowed = _allowed(name, _reserve(given, reserve), limit, catalog)
    sizes = _sizes(given, name, calibrator, tokenizers)
    groups, fixed = grouped(given)
    bounds = Bounds(
        allowed=allowed,
        target=target,
        fixed=sizes.body + sizes.of(fixed),
        summary=0 if memory is None else summary_tokens,
        pinned=_pinned_groups(groups, pinned),
    )
    plan = _plan(
        given, groups, fixed, cuts(groups, [sizes.of(group.members) for group in groups], bounds)
    )
    _must_fit(given, sizes, plan, bounds.summary if plan.gone else 0, allowed)

    size = partial(_summary_size, given, name, tokenizers)
    found = _summarised(plan.sections, memory, summarise, size, summary_tokens)
    summary_size = 0 if found.summary is None else size(found.summary)
    return _fitted(given, plan, sizes, found, summary_size, allowed)


def _model(conversation: Any, model: str | None) -> str:
    found = model
    if found is None and isinstance(conversation, Mapping):
        found = conversation.get("model")
    if not isinstance(found, str) or not found.strip():
        raise ValueError("fit needs model=, or a request that names its model")
    return found


def _check(target: float, pinned: int, summary_tokens: int, *, asks: bool, remembers: bool) -> None:
    if not 0 < target <= 1:
        raise ValueError(f"target must be above 0 and at most 1, not {target!r}")
    if pinned < 0:
        raise ValueError(f"pinned must be at least 0 messages, not {pinned!r}")
    if summary_tokens < 1:
        raise ValueError(f"summary_tokens must be at least 1, not {summary_tokens!r}")
    if asks and not remembers:
        raise ValueError(
            "summarise needs memory=, a dict that you keep with the conversation: without it "
            "each call would pay for the same summary again, and lose the cache"
        )


def _reserve(given: Conversation, reserve: int | None) -> int:
    found = [given.body[one] for one in _ANSWERS if isinstance(given.body.get(one), int)]
    if reserve is None and not found:
        raise ValueError("give reserve=, the tokens that the answer may have")
    tokens: int = max(found) if reserve is None else reserve
    if tokens < 0:
        raise ValueError(f"reserve must be at least 0 tokens, not {tokens:,}")
    return tokens


def _allowed(model: str, reserve: int, limit: int | None, catalog: CatalogLike) -> int:
    """Input tokens that a request may have."""
    window, most = limit, None
    if limit is None:
        from ..catalog import catalog_of  # a program that says its limit needs none

        facts = catalog_of(catalog).model(model)
        window = facts.context_window if facts else None
        most = facts.max_input_tokens if facts else None
    if window is None and most is None:
        raise ValueError(
            f"the context window of {model!r} is not known; give limit=, the tokens of input "
            "and output together"
        )
    room = None if window is None else window - reserve
    allowed = min(one for one in (most, room) if one is not None)
    if window is not None and allowed < 1:
        raise ValueError(f"a reserve of {reserve:,} leaves nothing of a window of {window:,}")
    return allowed


def _highest(
    bodies: Sequence[Mapping[Any, Any]], given: Conversation, model: str, tokenizers: Tokenizers
) -> list[int]:
    return highest(bodies, model=model, endpoint=given.endpoint, tokenizers=tokenizers)


def _sizes(
    given: Conversation, model: str, calibrator: Calibrator | None, tokenizers: Tokenizers
) -> _Sizes:
    alone = [{given.field: [message]} for message in given.messages]
    around = {**given.body, given.field: given.before}
    frame, body, *rest = _highest([{given.field: []}, around, *alone], given, model, tokenizers)
    messages = [tokens - frame for tokens in rest]
    if calibrator is None:
        return _Sizes(body, messages)
    whole = {**given.body, given.field: [*given.before, *given.messages]}
    before, learned = (
        count(whole, model=model, endpoint=given.endpoint, tokenizers=tokenizers, calibrator=one)
        for one in (None, calibrator)
    )
    factor = ceil(_STEPS * learned.p95 / max(1, before.p95)) / _STEPS
    return _Sizes(ceil(body * factor), [ceil(tokens * factor) for tokens in messages])


def _summary_size(given: Conversation, model: str, tokenizers: Tokenizers, summary: Any) -> int:
    empty: list[Any] = []
    bodies = [{given.field: one} for one in (empty, [as_message(summary)])]
    frame, whole = _highest(bodies, given, model, tokenizers)
    return whole - frame


def _pinned_groups(groups: Sequence[Group], pinned: int) -> int:
    """How many groups hold the first `pinned` messages."""
    number = 0
    while pinned > 0 and number < len(groups):
        pinned -= len(groups[number].members)
        number += 1
    return number


def _plan(
    given: Conversation, groups: Sequence[Group], fixed: Sequence[int], found: Sequence[Cut]
) -> _Plan:
    places = [[one for number in cut.dropped for one in groups[number].members] for cut in found]
    gone = {place for section in places for place in section}
    return _Plan(
        gone=gone,
        kept=[place for place in range(len(given.messages)) if place not in gone],
        fixed=frozenset(fixed),
        turns=frozenset(group.members[0] for group in groups if group.is_turn),
        sections=[[given.messages[place] for place in section] for section in places],
        is_new_cut=bool(found) and found[-1].at + 1 == len(groups),
    )


def _must_fit(given: Conversation, sizes: _Sizes, plan: _Plan, held: int, allowed: int) -> None:
    needed = sizes.body + held + sizes.of(plan.kept)
    if needed <= allowed:
        return
    path, longest = "what stands around the messages", sizes.body
    for place in plan.kept:
        if sizes.messages[place] > longest:
            path, longest = f"{given.field}[{place}]", sizes.messages[place]
    raise TooLongError(needed=needed, allowed=allowed, path=path, longest=longest)


def _summarised(
    sections: Sequence[Sequence[Any]],
    memory: MutableMapping[str, Any] | None,
    summarise: Callable[[list[Any]], Any] | None,
    size: Callable[[Any], int],
    most: int,
) -> Found:
    def fault(summary: Any) -> str | None:
        if isinstance(summary, str) and not summary.strip():
            return "a summary must not be empty; leave out memory= to leave nothing in its place"
        if not isinstance(summary, str | Mapping):
            return f"a summary is a text or a message, not {type(summary).__name__}"
        tokens = size(summary)
        if tokens > most:
            return (
                f"a summary has up to {tokens:,} tokens and summary_tokens is {most:,}; ask for "
                "a shorter one, or hold more"
            )
        return None

    while memory is not None:
        found = look_up(sections, memory, lambda summary: fault(summary) is None)
        if found.key is None:
            return found
        if summarise is None:
            wrong = fault(memory[found.key]) if found.key in memory else None
        else:
            summary = plain(summarise(found.missing))
            wrong = fault(summary)
        if wrong is not None:
            raise SummaryError(wrong)
        if summarise is None:
            return found
        memory[found.key] = summary
    return Found()


def _fitted(
    given: Conversation, plan: _Plan, sizes: _Sizes, found: Found, summary_size: int, allowed: int
) -> Fitted:
    messages = [given.messages[place] for place in plan.kept]
    if found.summary is not None:
        place, is_turn = plan.summary_place()
        messages = placed(messages, place, found.summary, given.endpoint, is_turn=is_turn)
    payload = None
    if given.request is not None:
        payload = {**given.request, given.field: messages} if plan.gone else dict(given.request)
    return Fitted(
        messages=messages,
        payload=payload,
        dropped=[message for section in plan.sections for message in section],
        summary=found.summary,
        unsummarised=found.missing,
        memory_key=found.key,
        tokens=sizes.body + sizes.of(plan.kept) + summary_size,
        tokens_before=sizes.body + sum(sizes.messages),
        allowed=allowed,
        num_cuts=len(plan.sections),
        is_new_cut=plan.is_new_cut,
    )
