"""What every wire format is translated to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from .sse import Event

__all__ = ["Accumulator", "Adapter", "Delta", "Failure", "FailureKind", "Part", "Usage"]


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one reply, in one normal form whatever the provider's vocabulary.

    `uncached + cache_read + sum(cache_write.values()) == input_tokens`. Every field is
    `None` until the provider has told it.

    Attributes:
        uncached: Input tokens computed and not kept.
        cache_read: Input tokens read from the provider's prompt cache.
        cache_write: Input tokens written to it, by time to live, such as `5m`.
        output: Output tokens, reasoning included.
        reasoning: The part of `output` spent on reasoning.
    """

    uncached: int | None = None
    cache_read: int | None = None
    cache_write: Mapping[str, int] | None = None
    output: int | None = None
    reasoning: int | None = None

    @property
    def input_tokens(self) -> int | None:
        """All input tokens, cached or not; `None` when none of them was told."""
        if self.uncached is None:
            return None
        return self.uncached + (self.cache_read or 0) + sum((self.cache_write or {}).values())

    def updated(self, newer: Usage) -> Usage:
        """This with what `newer` tells in its place: counts are cumulative, never added."""
        return Usage(
            uncached=self.uncached if newer.uncached is None else newer.uncached,
            cache_read=self.cache_read if newer.cache_read is None else newer.cache_read,
            cache_write=self.cache_write if newer.cache_write is None else newer.cache_write,
            output=self.output if newer.output is None else newer.output,
            reasoning=self.reasoning if newer.reasoning is None else newer.reasoning,
        )


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
        failure: The stream reports an error.
        is_terminal: Nothing of the answer follows.
        finish: Why the model stopped, in the provider's word.
        finished: The choices of a stream that end here, by index.
    """

    has_tokens: bool = False
    usage: Usage | None = None
    failure: Failure | None = None
    is_terminal: bool = False
    finish: str | None = None
    finished: tuple[int, ...] = ()


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
