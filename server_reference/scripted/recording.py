"""What a recording holds, and its file: JSON, every byte of the bodies, no secrets.

The file is data and nothing else: reading one never runs code (as unsafe YAML did in vcrpy,
changelog 8.2.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal, Self

import msgspec

from .. import credentials
from .request import Received

__all__ = ["Ending", "Exchange", "Recording", "Reply", "Request", "Write", "redacted_writes"]

Ending = Literal["end", "fin", "reset", "unfinished"]
"""How a reply ended: whole, broken off by FIN or RST, or nobody read on."""


class _Content(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Bytes: as text where they are UTF-8."""

    text: str | None = None
    base64: bytes | None = None

    @property
    def data(self) -> bytes:
        return (self.text or "").encode() if self.base64 is None else self.base64


class Write(_Content, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A piece of a body, `after` seconds from the one before."""

    after: float = 0.0

    @classmethod
    def of(cls, data: bytes, after: float = 0.0) -> Self:
        after = round(after, 6)
        try:
            return cls(text=data.decode(), after=after)
        except UnicodeDecodeError:
            return cls(base64=data, after=after)


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was asked, without secrets."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: Write

    @classmethod
    def of(cls, received: Received) -> Self:
        secrets = credentials.secrets_in(received.headers, received.target)
        return cls(
            received.method,
            credentials.redact_target(received.target),
            credentials.redact_headers(received.headers, secrets),
            Write.of(credentials.redact_body(received.body, secrets)),
        )


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came back.

    Attributes:
        after: Seconds from the request to the head.
        framing: How the body's end was told; `length` with `length`.
        ended_after: Seconds from the last piece to the end.
    """

    status: int
    reason: str | None
    headers: tuple[tuple[str, str], ...]
    after: float
    framing: Literal["chunked", "length", "close"]
    length: int | None
    writes: tuple[Write, ...]
    ending: Ending
    ended_after: float


class Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request and its reply."""

    request: Request
    reply: Reply


class Recording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a server recorded, in the order in which it was asked."""

    upstream: str
    exchanges: tuple[Exchange, ...]
    version: Literal[1] = 1

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a recording.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It is no recording; the message says where.
        """
        data = Path(path).read_bytes()
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if (version := _version_of(data)) not in (None, 1):
                raise ValueError(
                    f"{path} is a recording of version {version}, and version 1 is read; record "
                    "it again, or use the release that made it"
                ) from error
            raise ValueError(f"{path} is no recording: {error}; record it again") from error

    def save(self, path: str | Path) -> None:
        """Write it, whole or not at all."""
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        half = file.with_name(f"{file.name}.part")
        half.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
        half.replace(file)


class _Versioned(msgspec.Struct):
    version: int | None = None


def _version_of(data: bytes) -> int | None:
    try:
        return msgspec.json.decode(data, type=_Versioned).version
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def redacted_writes(writes: Sequence[tuple[float, bytes]], secrets: Iterable[str]) -> list[Write]:
    """A body's pieces without secrets, cut where they were cut.

    A secret may stand in two pieces: it is looked for in the whole, and then the cuts are
    put back. A cut inside one moves to its end.
    """
    whole = b"".join(data for _, data in writes)
    hidden = list(secrets)
    clean = credentials.redact_body(whole, hidden)
    if clean == whole:
        return [Write.of(data, after) for after, data in writes]
    pieces, done = [], 0
    for (after, _), end in zip(writes, accumulate(len(data) for _, data in writes), strict=True):
        cut = len(clean) if end == len(whole) else _cut(clean, whole[:end], hidden, done)
        pieces.append(Write.of(clean[done:cut], after))
        done = cut
    return pieces


def _cut(clean: bytes, before: bytes, secrets: Sequence[str], least: int) -> int:
    """Where `clean` is cut to hold what `before` held."""
    held = credentials.redact_body(before, secrets)
    same = next(
        (at for at, (new, old) in enumerate(zip(clean, held, strict=False)) if new != old),
        min(len(clean), len(held)),
    )
    return max(least, same if same < len(held) else len(held))
