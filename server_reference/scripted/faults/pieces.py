"""A script taken apart into its head and the events of its body, and put together again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec

from ..framing import Framing
from ..ops import Body, End, Head, Op, Raw, Script, Wait

__all__ = ["Piece", "Reply", "UnfitError", "as_raw", "event"]

_EVENT = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r)", re.DOTALL)
_DATA = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)


class UnfitError(ValueError):
    """A fault cannot break this reply; the message says what it needs."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One event, or a whole body that is none.

    Attributes:
        wait: Seconds before it.
    """

    data: bytes
    wait: float = 0.0

    @property
    def text(self) -> bytes:
        """Its data lines joined; a whole body as it is."""
        lines = _DATA.findall(self.data)
        return b"\n".join(lines) if lines else self.data

    @property
    def fields(self) -> dict[str, Any]:
        """Its JSON object; empty when it holds none."""
        try:
            found = msgspec.json.decode(self.text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return found if isinstance(found, dict) else {}

    def with_fields(self, fields: dict[str, Any]) -> Piece:
        """The same event with another object."""
        encoded = msgspec.json.encode(fields)
        if not _DATA.search(self.data):
            return replace(self, data=encoded)
        head = self.data[: self.data.index(b"data:")]
        return replace(self, data=head + b"data: " + encoded + b"\n\n")


def event(fields: dict[str, Any], name: str | None = None) -> Piece:
    """An event of its own."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return Piece(head + b"data: " + msgspec.json.encode(fields) + b"\n\n")


@dataclass(frozen=True, slots=True)
class Reply:
    """A script in its parts.

    Attributes:
        before: What comes before the head.
        top: The head, if there is one.
        pieces: The body's events; a body that is no event stream is one piece.
        after: What comes after the body, as a rule its end.
    """

    before: tuple[Op, ...]
    top: Head | None
    pieces: tuple[Piece, ...]
    after: tuple[Op, ...]

    @classmethod
    def of(cls, script: Script) -> Self:
        ops = list(script)
        at = next((n for n, op in enumerate(ops) if isinstance(op, Head) and op.status > 199), None)
        if at is None:
            return cls(tuple(ops), None, (), ())
        top = ops[at]
        assert isinstance(top, Head)
        end = next((n for n in range(at + 1, len(ops)) if not isinstance(ops[n], Body | Wait)), -1)
        end = len(ops) if end < 0 else end
        is_stream = _is_stream(top)
        pieces, rest = _pieces(ops[at + 1 : end], is_stream=is_stream)
        return cls(tuple(ops[:at]), top, tuple(pieces), (*rest, *ops[end:]))

    @property
    def head(self) -> Head:
        """The head.

        Raises:
            UnfitError: There is none, since another fault took it.
        """
        if self.top is None:
            raise UnfitError("the reply has no head left to break; let this fault go first")
        return self.top

    @property
    def is_stream(self) -> bool:
        return self.top is not None and _is_stream(self.top)

    @property
    def body(self) -> bytes:
        return b"".join(piece.data for piece in self.pieces)

    def script(
        self,
        pieces: Iterable[Piece] | None = None,
        *,
        head: Head | None = None,
        after: Sequence[Op] | None = None,
    ) -> list[Op]:
        """The whole again, with other parts where they are given.

        A length that was right stays right.
        """
        head = self.head if head is None else head
        kept = self.pieces if pieces is None else tuple(pieces)
        if head.length is not None and head.length == len(self.body):
            head = replace(head, length=sum(len(piece.data) for piece in kept))
        ops: list[Op] = [*self.before, head]
        for piece in kept:
            if piece.wait:
                ops.append(Wait(piece.wait))
            ops.append(Body(piece.data))
        return [*ops, *(self.after if after is None else after)]

    def chunked(self) -> Head:
        """The head, its body in chunks."""
        return replace(self.head, framing="chunked", length=None)


def as_raw(script: Script) -> list[Op]:
    """The same bytes past all framing, for faults inside the framing itself.

    The connection stays open after it.
    """
    framing = Framing("POST", "1.1", keeps_alive=True)
    ops: list[Op] = []
    for op in script:
        if isinstance(op, Head | Body | Raw | End):
            if data := framing.encode(op):
                ops.append(Raw(data))
        else:
            ops.append(op)
    return [*ops, End()]


def _is_stream(head: Head) -> bool:
    kinds = [value for name, value in head.fields if name.lower() == "content-type"]
    return any("event-stream" in kind.lower() for kind in kinds)


def _pieces(ops: Sequence[Op], *, is_stream: bool) -> tuple[list[Piece], list[Op]]:
    """Whole events, whatever the writes were; and the waits that follow the last."""
    pieces: list[Piece] = []
    wait, held = 0.0, b""
    for op in ops:
        if isinstance(op, Wait):
            wait += op.seconds
        elif isinstance(op, Body):
            held += op.data
            for whole in _EVENT.findall(held) if is_stream else ():
                pieces.append(Piece(whole, wait))
                held, wait = held[len(whole) :], 0.0
    if held:
        pieces.append(Piece(held, wait))
        wait = 0.0
    return pieces, [Wait(wait)] if wait else []
