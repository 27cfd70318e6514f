"""Replies of the Responses format: whole responses, and the events of streamed ones.

Source: OpenAI API reference, "Responses" and "Responses: streaming events".
"""

from __future__ import annotations

from collections.abc import Iterable

from .chat import ChatRequest
from .errors import ApiError, openai_error
from .events import (
    ArgumentsDelta,
    EndReason,
    Finished,
    Logprob,
    Started,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolEvent,
)
from .openai_logprobs import with_top
from .wire import Choice, ToolUse, encode, sse

__all__ = ["Response", "ResponseWriter"]

_CUT: tuple[EndReason, ...] = ("length", "context")


class Response:
    """One response, as it stands at each point of its life."""

    def __init__(self, request: ChatRequest, request_id: str, *, created_at: int) -> None:
        self._request = request
        self._id = request_id.removeprefix("req_")
        self._created_at = created_at

    def in_progress(self) -> dict[str, object]:
        return self._fields("in_progress")

    def ended(self, started: Started, choice: Choice) -> dict[str, object]:
        assert choice.finished is not None
        status = _status(choice.finished)
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return self._fields(
            status,
            incomplete_details=details,
            output=self._items(choice, status),
            usage=_usage(started, choice.finished.output_tokens),
        )

    def failed(self, error: ApiError, choice: Choice) -> dict[str, object]:
        described = openai_error(error)
        described["code"] = described["code"] or described["type"]
        output = self._items(choice, "incomplete") if choice.parts else []
        return self._fields("failed", error=described, output=output)

    def item(
        self,
        index: int,
        part: str | ToolUse | None,
        status: str,
        *,
        logprobs: Iterable[Logprob] = (),
    ) -> dict[str, object]:
        """An item of the output; a message is without its part while `part` is `None`."""
        if isinstance(part, ToolUse):
            return {
                "id": f"fc_{part.id}",
                "type": "function_call",
                "status": status,
                "call_id": f"call_{part.id}",
                "name": part.name,
                "arguments": part.arguments,
            }
        return {
            "id": f"msg_{self._id}" + (f"_{index}" if index else ""),
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [] if part is None else [_part(part, logprobs)],
        }

    def _items(self, choice: Choice, last_status: str) -> list[dict[str, object]]:
        """The output, of which only the last item can be cut."""
        parts = choice.parts or [""]
        states = ["completed"] * (len(parts) - 1) + [last_status]
        return [
            self.item(at, part, status, logprobs=choice.texts_logprobs.get(at, ()))
            for at, (part, status) in enumerate(zip(parts, states, strict=True))
        ]

    def _fields(self, status: str, **known: object) -> dict[str, object]:
        request = self._request
        repeated = dict(request.repeated or {})
        text = {"format": {"type": "text"}, "verbosity": "medium"} | (repeated.get("text") or {})
        fields: dict[str, object] = {
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": self._created_at,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": request.max_tokens,
            "max_tool_calls": None,
            "metadata": {},
            "model": request.model,
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": request.temperature,
            "tool_choice": "auto",
            "tools": [],
            "top_logprobs": request.logprobs or 0,
            "top_p": request.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": None,
        }
        return fields | repeated | {"text": text} | known


class ResponseWriter:
    """The response's start, an item per text and call, the response's end.

    Every event is numbered from 0, without a gap.
    """

    def __init__(self, response: Response) -> None:
        self._response = response
        self._num_events = 0
        self._started: Started | None = None
        self._choice = Choice()
        self._is_open = False

    def started(self, event: Started) -> bytes:
        self._started = event
        return self._opening()

    def text(self, event: TextDelta) -> bytes:
        is_next = self._is_open and isinstance(self._choice.parts[-1], str)
        if not event.text and not is_next and self._choice.parts:
            return b""  # log-probabilities of a call
        closing = b"" if is_next else self._close()
        self._choice.take(event)
        opening = b"" if is_next else self._open_message()
        own = event.logprobs[event.num_of_calls :]
        logprobs = [with_top(one, has_bytes=False) for one in own]
        delta = self._of_part("response.output_text.delta", delta=event.text, logprobs=logprobs)
        return closing + opening + delta

    def tool_call(self, event: ToolEvent) -> bytes:
        closing = self._close() if isinstance(event, ToolCallStarted) else b""
        self._choice.take(event)
        match event:
            case ToolCallStarted():
                self._is_open = True
                return closing + self._of_item("response.output_item.added", "in_progress")
            case ArgumentsDelta():
                return self._of_call("response.function_call_arguments.delta", delta=event.text)
            case ToolCallFinished():
                return self._close()

    def finished(self, event: Finished) -> bytes:
        self._choice.take(event)
        if self._choice.parts:
            return self._close(_status(event))
        self._choice.parts.append("")
        return self._open_message() + self._close(_status(event))

    def end(self) -> bytes:
        finished = self._choice.finished
        assert self._started is not None
        assert finished is not None
        response = self._response.ended(self._started, self._choice)
        return self._event(f"response.{_status(finished)}", response=response)

    def failed(self, error: ApiError) -> bytes:
        # A stream whose headers left before anything came has not begun yet.
        opening = b"" if self._num_events else self._opening()
        response = self._response.failed(error, self._choice)
        return opening + self._event("response.failed", response=response)

    def ping(self) -> bytes:
        return b": ping\n\n"

    def _opening(self) -> bytes:
        response = self._response.in_progress()
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    @property
    def _index(self) -> int:
        """Of the latest item."""
        return len(self._choice.parts) - 1

    def _open_message(self) -> bytes:
        self._is_open = True
        item = self._response.item(self._index, None, "in_progress")
        added = self._event("response.output_item.added", output_index=self._index, item=item)
        return added + self._of_part("response.content_part.added", part=_part(""))

    def _close(self, status: str = "completed") -> bytes:
        """End the item that is open, if any."""
        if not self._is_open:
            return b""
        self._is_open = False
        part = self._choice.parts[-1]
        if isinstance(part, ToolUse):
            name = "response.function_call_arguments.done"
            done = self._of_call(name, name=part.name, arguments=part.arguments)
        else:
            told = self._choice.texts_logprobs.get(self._index, [])
            logprobs = [with_top(one, has_bytes=False) for one in told]
            done = self._of_part("response.output_text.done", text=part, logprobs=logprobs)
            done += self._of_part("response.content_part.done", part=_part(part, told))
        return done + self._of_item("response.output_item.done", status)

    def _of_item(self, event: str, status: str) -> bytes:
        index, part = self._index, self._choice.parts[-1]
        logprobs = self._choice.texts_logprobs.get(index, ())
        item = self._response.item(index, part, status, logprobs=logprobs)
        return self._event(event, output_index=self._index, item=item)

    def _of_call(self, event: str, **fields: object) -> bytes:
        part = self._choice.parts[-1]
        item = self._response.item(self._index, part, "in_progress")
        return self._event(event, item_id=item["id"], output_index=self._index, **fields)

    def _of_part(self, event: str, **fields: object) -> bytes:
        item = self._response.item(self._index, None, "in_progress")
        place = {"item_id": item["id"], "output_index": self._index, "content_index": 0}
        return self._event(event, **place, **fields)

    def _event(self, name: str, /, **fields: object) -> bytes:
        head = {"type": name, "sequence_number": self._num_events}
        self._num_events += 1
        return sse(encode(head | fields), event=name)


def _part(text: str, logprobs: Iterable[Logprob] = ()) -> dict[str, object]:
    told = [with_top(one) for one in logprobs]
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": told}


def _usage(started: Started, output_tokens: int) -> dict[str, object]:
    """Counts; `input_tokens` has cached ones in it."""
    return {
        "input_tokens": started.input_tokens,
        "input_tokens_details": {"cached_tokens": started.cache_read, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": started.input_tokens + output_tokens,
    }


def _status(finished: Finished) -> str:
    return "incomplete" if finished.reason in _CUT else "completed"
