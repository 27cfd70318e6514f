"""What the front and an engine process say to each other: length-prefixed msgpack."""

from __future__ import annotations

import msgspec

from ..config import EngineConfig
from ..core import EngineStats, GenerateRequest, SequenceUpdate, StepRecord

__all__ = [
    "MAX_FRAME_BYTES",
    "Beat",
    "Explain",
    "Explained",
    "FrameBuffer",
    "FrameError",
    "FromEngine",
    "Hello",
    "Loading",
    "Ready",
    "StartFailed",
    "Stepped",
    "Stop",
    "ToEngine",
    "Work",
    "frame",
    "from_engine",
    "to_engine",
]

MAX_FRAME_BYTES = 1 << 28
_LENGTH_BYTES = 4


class FrameError(ValueError):
    """What came is no frame of this protocol."""


class Hello(msgspec.Struct, tag=True, frozen=True):
    """The first frame: what to load."""

    config: EngineConfig


class Work(msgspec.Struct, tag=True, frozen=True):
    """What has come since the last step: sequences to add, and ids to abort."""

    add: list[GenerateRequest]
    abort: list[str]


class Explain(msgspec.Struct, tag=True, frozen=True):
    """Tell of the last steps; each is answered with one `Explained`, in order."""

    last: int


class Stop(msgspec.Struct, tag=True, frozen=True):
    """End the process."""


class Loading(msgspec.Struct, tag=True, frozen=True):
    """How far loading is, in words."""

    stage: str


class Ready(msgspec.Struct, tag=True, frozen=True):
    """The engine takes work.

    Args:
        capacity: Tokens that one sequence may have.
        notes: What the model is computed in, and the arithmetic of the engine's memory.
    """

    capacity: int
    stats: EngineStats
    notes: list[str] = []


class StartFailed(msgspec.Struct, tag=True, frozen=True):
    """The engine could not be made, in one sentence."""

    reason: str


class Stepped(msgspec.Struct, tag=True, frozen=True):
    """One step's new text for every sequence in it."""

    updates: list[SequenceUpdate]
    stats: EngineStats


class Explained(msgspec.Struct, tag=True, frozen=True):
    """The steps that were asked for, as far as they are remembered, oldest first."""

    steps: list[StepRecord]


class Beat(msgspec.Struct, tag=True, frozen=True):
    """A sign of life, however long a step takes."""


ToEngine = Hello | Work | Explain | Stop
FromEngine = Loading | Ready | StartFailed | Stepped | Explained | Beat

_encoder = msgspec.msgpack.Encoder()
_to_engine = msgspec.msgpack.Decoder(ToEngine)
_from_engine = msgspec.msgpack.Decoder(FromEngine)


def frame(message: ToEngine | FromEngine) -> bytes:
    """`message` as it goes over the socket."""
    body = _encoder.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame may have {MAX_FRAME_BYTES:,} bytes, not {len(body):,}")
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


def to_engine(body: bytes) -> ToEngine:
    """Read a frame's body on the engine's side."""
    return _to_engine.decode(body)


def from_engine(body: bytes) -> FromEngine:
    """Read a frame's body on the front's side.

    Raises:
        FrameError: It is none.
    """
    try:
        return _from_engine.decode(body)
    except msgspec.DecodeError as error:
        raise FrameError(f"a frame of {len(body):,} bytes is unreadable: {error}") from error


class FrameBuffer:
    """Cuts a byte stream into the bodies of its frames, however it was split."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take `data` in; return the bodies that are now whole.

        Raises:
            FrameError: A frame is longer than any may be.
        """
        self._bytes += data
        bodies: list[bytes] = []
        start = 0
        while True:
            body_at = start + _LENGTH_BYTES
            size = int.from_bytes(self._bytes[start:body_at], "big")
            end = body_at + size
            if size > MAX_FRAME_BYTES:
                raise FrameError(f"a frame may have {MAX_FRAME_BYTES:,} bytes, not {size:,}")
            if len(self._bytes) < body_at or len(self._bytes) < end:
                break
            bodies.append(bytes(self._bytes[body_at:end]))
            start = end
        del self._bytes[:start]
        return bodies
