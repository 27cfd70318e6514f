"""What a wire format is to the front: reads requests, writes replies and streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from .chat import ChatRequest
from .errors import ApiError
from .events import (
    ArgumentsDelta,
    Event,
    Failed,
    Finished,
    Logprob,
    Started,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolEvent,
)

__all__ = ["Answer", "Choice", "StreamWriter", "ToolUse", "WireFormat", "encode", "sse"]

encode = msgspec.json.encode


def sse(data: bytes, *, event: str | None = None) -> bytes:
    """One server-sent event; `data` is on one line."""
    head = b"" if event is None else b"event: " + event.encode() + b"\n"
    return head + b"data: " + data + b"\n\n"


@dataclass(slots=True)
class ToolUse:
    """A call in an answer; its arguments are a JSON object once it is complete."""

    id: str
    name: str
    arguments: str = ""
    is_complete: bool = False


@dataclass(slots=True)
class Choice:
    """One answer as far as it has come: its texts and calls in their order.

    Attributes:
        logprobs: Of all its tokens.
        texts_logprobs: Of each text's alone, by its place among the parts.
    """

    parts: list[str | ToolUse] = field(default_factory=list)
    logprobs: list[Logprob] = field(default_factory=list)
    texts_logprobs: dict[int, list[Logprob]] = field(default_factory=dict)
    finished: Finished | None = None

    @property
    def text(self) -> str:
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def calls(self) -> list[ToolUse]:
        return [part for part in self.parts if isinstance(part, ToolUse)]

    def take(self, event: TextDelta | ToolEvent | Finished) -> None:
        """Add what `event` brings."""
        last = self.parts[-1] if self.parts else None
        match event:
            case TextDelta(text=text):
                self.logprobs += event.logprobs
                if isinstance(last, str):
                    self.parts[-1] = last + text
                elif text or not self.parts:
                    self.parts.append(text)
                else:
                    return  # of a call that was cut off
                own = event.logprobs[event.num_of_calls :]
                if own:
                    self.texts_logprobs.setdefault(len(self.parts) - 1, []).extend(own)
            case ToolCallStarted():
                self.parts.append(ToolUse(event.id, event.name))
            case ArgumentsDelta(text=text):
                assert isinstance(last, ToolUse)
                last.arguments += text
            case ToolCallFinished():
                assert isinstance(last, ToolUse)
                last.is_complete = True
            case Finished():
                self.finished = event


@dataclass(slots=True)
class Answer:
    """A whole event stream, for a reply that is not streamed."""

    started: Started = field(default_factory=lambda: Started(0, 0))
    choices: dict[int, Choice] = field(default_factory=dict)

    @classmethod
    def of(cls, *events: Event) -> Answer:
        """What `events` make."""
        answer = cls()
        for event in events:
            answer.take(event)
        return answer

    @property
    def output_tokens(self) -> int:
        """Of all choices."""
        ends = [choice.finished for choice in self.choices.values()]
        return sum(end.output_tokens for end in ends if end is not None)

    def take(self, event: Event) -> None:
        """Add what `event` brings.

        Raises:
            ApiError: It is a failure.
        """
        match event:
            case Started():
                self.started = event
            case Failed():
                raise event.error
            case _:
                self.choices.setdefault(event.index, Choice()).take(event)


class StreamWriter(Protocol):
    """Writes one event stream in one wire format."""

    def started(self, event: Started) -> bytes: ...

    def text(self, event: TextDelta) -> bytes: ...

    def tool_call(self, event: ToolEvent) -> bytes: ...

    def finished(self, event: Finished) -> bytes:
        """One answer's end; the last one's is all up to, but without, what `end` writes."""
        ...

    def end(self) -> bytes:
        """The terminal event."""
        ...

    def failed(self, error: ApiError) -> bytes:
        """The last words of a stream that breaks off."""
        ...

    def ping(self) -> bytes:
        """A sign of life that clients ignore."""
        ...


class WireFormat(Protocol):
    """One API's chat endpoint."""

    def read(self, body: bytes) -> ChatRequest:
        """Check a request.

        Raises:
            ApiError: What is wrong with it.
        """
        ...

    def reply(self, answer: Answer, request: ChatRequest, request_id: str) -> bytes: ...

    def writer(self, request: ChatRequest, request_id: str) -> StreamWriter: ...
