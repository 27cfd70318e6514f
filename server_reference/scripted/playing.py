"""Every form in which a script may come, and its operations one after another."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias

from .ops import Op, Script

__all__ = ["LiveScript", "Playable", "each"]

LiveScript: TypeAlias = AsyncGenerator[Op, None]
"""Operations as they come; closed when the reply is over, whoever ended it."""

Playable: TypeAlias = Script | LiveScript | Awaitable[Script | LiveScript]


async def each(script: Playable, flush: Callable[[], None]) -> AsyncGenerator[Op, None]:
    """The operations of `script`. Close it: a live script must know that it is over.

    Args:
        flush: Called before a live script is waited for, which may take long.
    """
    ops = await script if isinstance(script, Awaitable) else script
    if isinstance(ops, AsyncGenerator):
        async with contextlib.aclosing(ops):
            async for op in ops:
                yield op
                flush()
        return
    for op in ops:
        yield op
