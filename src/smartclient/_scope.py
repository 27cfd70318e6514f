"""What holds for every call inside a `with` block, whichever client makes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from ._clock import checked_seconds

if TYPE_CHECKING:
    from .budgets import Budget

__all__ = ["Scope", "current_scope", "scope"]


class Scope(Struct, frozen=True):
    """The scopes that a call is in, put together.

    Attributes:
        tags: Of each scope that has one, the outermost first.
        budgets: Of each scope that has one, the outermost first, with its scope's tag.
        deadline: The nearest of theirs, in seconds of `time.monotonic`.
    """

    tags: tuple[str, ...] = ()
    budgets: tuple[tuple[Budget, str | None], ...] = ()
    deadline: float | None = None


_current: ContextVar[Scope | None] = ContextVar("smartclient_scope", default=None)


def current_scope() -> Scope | None:
    """The scopes that this code is in; `None` for none."""
    return _current.get()


@contextmanager
def scope(
    tag: str | None = None, budget: Budget | None = None, deadline: float | None = None
) -> Iterator[Scope]:
    """Let every call inside, an SDK's too, count under a tag, a budget and a deadline.

    Scopes nest: inner calls take of every budget around them, and end at the nearest
    deadline. Threads and tasks started inside inherit it as they do any context variable:
    tasks by themselves, threads by `contextvars.copy_context().run`. Inside a generator it holds
    for whoever runs that, until the block is left: do not yield in one.

    Args:
        tag: What the calls are for, such as a user or a run of an agent.
        budget: What they may use together.
        deadline: Seconds from now after which no call inside goes on.

    Raises:
        TypeError: One of them is of another type.
        ValueError: An empty tag, a deadline that is not above 0, or a budget inside a smaller
            one, whose limit can never be reached.
    """
    _check(tag, deadline)
    outer = _current.get() or Scope()
    if budget is not None:
        from .budgets import Budget  # only programs with one load it
        from .budgets.checks import check_inside

        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, not {type(budget).__name__}")
        if not any(around is budget for around, _ in outer.budgets):  # else it is there already
            for around, _ in outer.budgets:
                check_inside(budget, around)
    at = None if deadline is None else monotonic() + deadline
    inner = Scope(
        tags=outer.tags if tag is None else (*outer.tags, tag),
        budgets=outer.budgets if budget is None else (*outer.budgets, (budget, tag)),
        deadline=min((one for one in (at, outer.deadline) if one is not None), default=None),
    )
    token = _current.set(inner)
    try:
        yield inner
    finally:
        # An async generator that was left is closed in another context: nothing of it holds there.
        with suppress(ValueError):
            _current.reset(token)


def _check(tag: object, deadline: object) -> None:
    if tag is not None and not isinstance(tag, str):
        raise TypeError(f"tag must be text, not {type(tag).__name__}")
    if tag is not None and not 0 < len(tag) <= 200:
        raise ValueError(f"tag must have 1 to 200 characters, not {len(tag):,}")
    if deadline is not None:
        checked_seconds("deadline", deadline)
