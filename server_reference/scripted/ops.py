"""What a script does on the wire: one operation after another, the same for HTTP/1.1 and 2.

A script is a list of these. Everything above (answers in a provider's format, faults,
recordings) is compiled to them; the fronts (`http1.py`, `http2.py`) play them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = [
    "Body",
    "End",
    "Fin",
    "GoAway",
    "HalfClose",
    "Head",
    "NoCloseNotify",
    "Op",
    "Pause",
    "Raw",
    "Reset",
    "ResetStream",
    "Script",
    "Settings",
    "Starve",
    "Wait",
]


@dataclass(frozen=True, slots=True)
class Head:
    """Status and fields of the reply.

    Args:
        framing: How HTTP/1.1 tells the body's end: `chunked`, `length` (give `length`, right
            or wrong), or `close`. HTTP/2 has its own way and ignores it.
        length: For `content-length`.
    """

    status: int = 200
    fields: tuple[tuple[str, str], ...] = ()
    reason: str | None = None
    framing: Literal["chunked", "length", "close"] = "chunked"
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes of the body in one write: one chunk, or one DATA frame, and one segment."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes past all framing; HTTP/1.1 only."""

    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The end of the reply as its framing tells it; the connection stays open."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Send what stands before it, and let `seconds` pass on the server's clock; 0 is a flush."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing more until the client closes or the server stops: a hang."""


@dataclass(frozen=True, slots=True)
class Fin:
    """Close the connection in the orderly way, whatever is missing."""


@dataclass(frozen=True, slots=True)
class HalfClose:
    """Send FIN, and keep reading."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset the connection (RST)."""


@dataclass(frozen=True, slots=True)
class NoCloseNotify:
    """Close the TCP connection under TLS without a close_notify."""


@dataclass(frozen=True, slots=True)
class ResetStream:
    """HTTP/2: RST_STREAM with an error code such as 7 (REFUSED_STREAM) or 8 (CANCEL)."""

    code: int = 8


@dataclass(frozen=True, slots=True)
class GoAway:
    """HTTP/2: GOAWAY. `last_stream_id=None` names the newest stream; 0 processed none."""

    last_stream_id: int | None = None
    code: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """HTTP/2: SETTINGS by name, such as `{"MAX_CONCURRENT_STREAMS": 1}`."""

    values: tuple[tuple[str, int], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Starve:
    """HTTP/2: grant the client no more window from here on."""


Op: TypeAlias = (
    Head
    | Body
    | Raw
    | End
    | Wait
    | Pause
    | Fin
    | HalfClose
    | Reset
    | NoCloseNotify
    | ResetStream
    | GoAway
    | Settings
    | Starve
)
Script: TypeAlias = Sequence[Op]
