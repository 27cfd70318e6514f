"""What every wire format is translated to."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct

from .sse import Event
from .usage import Served, Usage

__all__ = ["Accumulator", "Adapter", "Delta", "Failure", "FailureKind", "Part", "diagnosed"]


FailureKind = Literal[
    "invalid",  # the request itself: sending it again cannot help
    "authentication",
    "rate_limited",
    "money",  # quota, credit or spend limit: waiting cannot help
    "overloaded",
    "server",
    "timeout",
    "malformed",  # what came is not what the format promises
    "incomplete",  # the stream ended before any content, and before its end
]


class Failure(Struct, frozen=True, kw_only=True):
    """An error that the provider reported, in a reply or inside a stream.

    Attributes:
        status: HTTP status; `None` for an error inside a stream.
        type: The provider's own name of it.
        is_transient: Whether the same call may succeed later.
    """

    kind: FailureKind
    status: int | None = None
    type: str | None = None
    code: str | None = None
    message: str = ""
    is_transient: bool = False


class Delta(Struct, frozen=True, kw_only=True):
    """What one event of a stream, or a whole reply, says to those who watch.

    Attributes:
        has_tokens: It carries output of the model.
        usage: Counts told by this event; see `Usage.updated`.
        served: How the call was served, told with its counts.
        changes_input: A tool ran at the provider, or it edited the context: the input tokens
            are not those of the request.
        has_fees: It cost more than its tokens, for such a tool, or for a compaction.
        failure: The stream reports an error.
        is_terminal: Nothing of the answer follows.
        finish: Why the model stopped, in the provider's word.
        finished: The choices of a stream that end here, by index.
        reply_id: How the provider calls this reply, told once.
        diagnosed: The JSON in which it says something about its prompt cache.
    """

    has_tokens: bool = False
    usage: Usage | None = None
    served: Served | None = None
    changes_input: bool = False
    has_fees: bool = False
    failure: Failure | None = None
    is_terminal: bool = False
    finish: str | None = None
    finished: tuple[int, ...] = ()
    reply_id: str | None = None
    diagnosed: str | bytes | None = None


def diagnosed(source: str | bytes) -> str | bytes | None:
    """`source`, if the provider speaks of its prompt cache in it: only who asks is told."""
    is_there = 'diagnostics"' in source if isinstance(source, str) else _DIAGNOSTICS in source
    return source if is_there else None


_DIAGNOSTICS = b'diagnostics"'


class Part(Struct, frozen=True):
    """One event of a stream, or a whole reply: its typed value, if any, and what it says."""

    value: Any
    delta: Delta


class Adapter(Protocol):
    """One wire format: bytes and structs in, our values out; no I/O and no state."""

    name: str
    provider: str
    request_id_header: str
    finish_is_end: bool
    """Whether a stream may end once its choices have finished, without a terminal event."""

    def recognises(self, method: str, path: str) -> bool:
        """Whether a request to `path` (without query) speaks this format."""
        ...

    def part(self, event: Event) -> Part:
        """Read one event of a stream. Malformed data is a `Failure`, never an exception."""
        ...

    def whole(self, body: bytes) -> Part:
        """Read a complete JSON reply: its typed value, and what it says. Never raises."""
        ...

    def value(self, body: bytes) -> Any:
        """Decode a complete JSON reply into its typed value.

        Raises:
            msgspec.DecodeError: It is not JSON of this format.
        """
        ...

    def text(self, value: Any) -> str:
        """The model's text in a typed value: one of a stream, or the whole reply's.

        Those of a stream add up to the whole's; of several choices it is the first one's.
        """
        ...

    def failure(self, status: int, body: bytes) -> Failure:
        """Read an error reply (status 400 and up), whatever its body is."""
        ...

    def accumulator(self) -> Accumulator:
        """Something that joins the values of a stream into the final typed value."""
        ...


class Accumulator(Protocol):
    """Joins the typed values of one stream."""

    def add(self, value: Any) -> None:
        """Take in the next value; unknown kinds are passed over."""
        ...

    def result(self) -> Any:
        """The typed value of the whole reply, as far as it has come."""
        ...
