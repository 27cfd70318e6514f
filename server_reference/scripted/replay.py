"""Plays a recording: the same question gets the same bytes, once for each time it was asked.

What was changed in a question is named, place by place: a test that fails must say why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from .changes import changes
from .ops import Body, End, Fin, Head, Op, Pause, Reset, Wait
from .recording import Ending, Exchange, Recording, Request
from .request import Received
from .rules import ExhaustedError, NoRuleError

__all__ = ["Replay"]

_MOST_CHANGES = 5
_ENDINGS: dict[Ending, Op] = {
    "end": End(),
    "fin": Fin(),
    "reset": Reset(),
    "unfinished": Pause(),
}


class Replay:
    """Answers from a recording.

    A rule's `then` takes it: `scripted(Replay("calls.json"))`. Requests are compared by method,
    target and body, a JSON body by its value; headers may differ. Each exchange is played once,
    and the same request asked again gets the next that was recorded for it.

    Args:
        source: A file, or a recording.
        speed: How many times as fast as recorded; `math.inf` waits for nothing.
        ignore: Paths into a JSON body that may differ, such as `metadata.user_id` or
            `messages[].id`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is no recording, or `speed` is not above 0.
    """

    def __init__(
        self,
        source: str | Path | Recording,
        *,
        speed: float = 1.0,
        ignore: Iterable[str] = (),
    ) -> None:
        if not speed > 0:
            raise ValueError(f"speed must be above 0, not {speed}; math.inf waits for nothing")
        self._recording = source if isinstance(source, Recording) else Recording.load(source)
        self._speed = speed
        self._ignore = (ignore,) if isinstance(ignore, str) else tuple(ignore)
        self._played: set[int] = set()

    @property
    def left(self) -> list[Exchange]:
        """The exchanges that nobody has asked for yet."""
        return [
            one
            for number, one in enumerate(self._recording.exchanges)
            if number not in self._played
        ]

    def __call__(self, received: Received) -> list[Op]:
        """The script for a request.

        Raises:
            NoRuleError: It was not recorded; the message says what differs from the nearest.
            ExhaustedError: It was recorded, and has been played as often.
        """
        asked = Request.of(received)
        nearest: tuple[int, list[str]] | None = None
        spent: list[int] = []
        for number, one in enumerate(self._recording.exchanges):
            found = self._changes(one.request, asked)
            if not found and number not in self._played:
                self._played.add(number)
                return self._script(one)
            if not found:
                spent.append(number)
            elif nearest is None or len(found) < len(nearest[1]):
                nearest = number, found
        if spent:
            raise ExhaustedError(self._exhausted(asked, spent))
        raise NoRuleError(self._unknown(asked, nearest))

    def _changes(self, recorded: Request, asked: Request) -> list[str]:
        found = [
            f"{name}: recorded {old!r}, asked {new!r}"
            for name, old, new in (
                ("method", recorded.method, asked.method),
                ("target", recorded.target, asked.target),
            )
            if old != new
        ]
        old_body, new_body = recorded.body.data, asked.body.data
        if old_body == new_body:
            return found
        return found + changes(_value(old_body), _value(new_body), ignore=self._ignore)

    def _script(self, exchange: Exchange) -> list[Op]:
        reply = exchange.reply
        script = self._wait(reply.after)
        script.append(Head(reply.status, reply.headers, reply.reason, reply.framing, reply.length))
        for write in reply.writes:
            script += self._wait(write.after)
            script.append(Body(write.data))
        return [*script, *self._wait(reply.ended_after), _ENDINGS[reply.ending]]

    def _wait(self, seconds: float) -> list[Op]:
        waits = seconds / self._speed
        return [Wait(waits)] if waits > 0 and not math.isinf(self._speed) else []

    def _exhausted(self, asked: Request, spent: list[int]) -> str:
        times = "once" if len(spent) == 1 else f"{len(spent)} times"
        which = ", ".join(str(number + 1) for number in spent)
        return (
            f"{asked.method} {asked.target} was recorded {times} (exchange {which}) and asked for "
            "once more; ask as often as it was recorded, or record again"
        )

    def _unknown(self, asked: Request, nearest: tuple[int, list[str]] | None) -> str:
        what = f"{asked.method} {asked.target} was not recorded"
        if nearest is None:
            return f"{what}: the recording is empty; record again"
        number, found = nearest
        shown = "; ".join(found[:_MOST_CHANGES])
        more = f"; and {len(found) - _MOST_CHANGES} more" if len(found) > _MOST_CHANGES else ""
        total = len(self._recording.exchanges)
        return f"{what}; against exchange {number + 1} of {total}, {shown}{more}; record again"


def _value(body: bytes) -> Any:
    """JSON as its value, any other body as its text."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode("utf-8", "backslashreplace")
