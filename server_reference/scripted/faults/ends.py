"""Faults in how a stream ends: cut, reset, with an error inside, or late.

Source: Anthropic API reference, "Streaming messages" (error events); RFC 9112, section 8.
"""

from __future__ import annotations

from dataclasses import replace

from ..ops import End, Fin, HalfClose, Op, Raw, Reset, Script, Wait
from ..request import Received
from .formats import chat_chunk, error_piece, is_end
from .parameters import Count, Number, Seconds
from .pieces import Piece, Reply, event
from .presets import Break, preset

__all__ = [
    "cut_after",
    "cut_before_terminal",
    "empty_stream",
    "error_after_content",
    "error_beside_choices",
    "error_event",
    "error_object",
    "fin_after",
    "fin_instead_of_terminator",
    "fin_mid_chunk",
    "half_close_after",
    "late_terminator",
    "no_done",
    "only_done",
    "overloaded_as_api_error",
    "reset_after",
    "reset_mid_chunk",
    "short_body",
]

_CUT = (
    "pydantic-ai#6610; anthropic-sdk-typescript#893, PR#920, #842; agent-afk PR#635; "
    "LLMock's table of SDKs"
)
_INCOMPLETE = "Raise an error of its own that carries the part that came; never a whole answer."
_ERRORS = "anthropic-sdk-python#688, #1258, #1918; inspect_ai#2272; omadia PR#122"
_IN_BAND = (
    "litellm#40578; vllm#40978, PR#40986; guidellm#743; llama.cpp#14566; octo-agent PR#910; "
    "agent-os PR#2215"
)
_MAPPED = "Map the error's type to its class; send again only if nothing was handed on yet."
_DONE = Piece(b"data: [DONE]\n\n")


@preset("END", _CUT, right=_INCOMPLETE, needs="stream")
def cut_before_terminal() -> Break:
    """The stream ends in good order, but before the event that says that the answer is whole."""

    def cut(reply: Reply, received: Received) -> Script:
        return reply.script(_until_end(reply))

    return cut


@preset("END", _CUT, right=_INCOMPLETE, needs="stream")
def cut_after(events: Count = 3) -> Break:
    """The stream ends in good order after some events.

    Args:
        events: How many.
    """
    return lambda reply, received: reply.script(reply.pieces[:events])


@preset("END", _CUT, right=_INCOMPLETE, needs="stream")
def empty_stream() -> Break:
    """A stream of no events at all ends in good order."""
    return lambda reply, received: reply.script([])


@preset(
    "END",
    "TensorRT-LLM PR#18289; aimock 1.35.1",
    right="Take the finish reason for the end, when the connection ends in good order too.",
    needs="stream",
    apis="openai.chat",
)
def no_done() -> Break:
    """The stream ends after its finish reason, without `[DONE]`."""
    return lambda reply, received: reply.script(
        piece for piece in reply.pieces if piece.text != b"[DONE]"
    )


@preset(
    "END",
    "LLMock's table of SDKs; litellm PR#32159",
    right="One error of its own whatever the transport raised, with the part that came.",
    needs=("stream", "http/1.1"),
)
def fin_mid_chunk(events: Count = 3) -> Break:
    """The connection closes inside a chunk.

    Args:
        events: Whole events before it.
    """
    return lambda reply, received: _mid_chunk(reply, events, Fin())


@preset(
    "END",
    "LLMock's table of SDKs; litellm PR#32159",
    right="A body without its terminating chunk is incomplete, also between two events.",
    needs="stream",
)
def fin_after(events: Count = 3) -> Break:
    """The connection closes between two events, without the terminating chunk.

    Args:
        events: Events before it.
    """
    return _stopped(events, Fin())


@preset(
    "END",
    "LLMock's table of SDKs; openai-python#3440",
    right="After the terminal event the answer is whole; the connection is not used again.",
    needs="stream",
)
def fin_instead_of_terminator() -> Break:
    """The connection closes after the terminal event, without the terminating chunk."""
    return lambda reply, received: reply.script(after=[Fin()])


@preset(
    "END",
    "LLMock's table of SDKs; litellm PR#32159",
    right="Fewer bytes than promised are an error, never a whole answer.",
    needs="http/1.1",
)
def short_body(missing: Number = 10) -> Break:
    """The connection closes before a body has the length that its head promised.

    Args:
        missing: Bytes that do not come.
    """

    def short(reply: Reply, received: Received) -> Script:
        body = reply.body
        head = replace(reply.head, framing="length", length=len(body))
        kept = body[: max(0, len(body) - missing)]
        return [*reply.before, head, *([Raw(kept)] if kept else []), Fin()]

    return short


@preset(
    "END",
    "toxiproxy's reset_peer",
    right="The same error as for a closed connection, with the part that came.",
    needs="stream",
)
def reset_after(events: Count = 3) -> Break:
    """The connection is reset after some events.

    Args:
        events: How many; with 0 only the head comes.
    """
    return _stopped(events, Reset())


@preset(
    "END",
    "toxiproxy's reset_peer",
    right="The same error as for a closed connection, with the part that came.",
    needs=("stream", "http/1.1"),
)
def reset_mid_chunk(events: Count = 3) -> Break:
    """The connection is reset inside a chunk.

    Args:
        events: Whole events before it.
    """
    return lambda reply, received: _mid_chunk(reply, events, Reset())


@preset(
    "END",
    "LLMock's table of SDKs; litellm PR#32159",
    right="The server's half of the connection has ended: an error now, not at the read timeout.",
    needs="stream",
)
def half_close_after(events: Count = 3) -> Break:
    """The server sends no more after some events, but keeps its reading half open.

    Args:
        events: How many.
    """
    return _stopped(events, HalfClose())


@preset("END", _ERRORS, right=_MAPPED, needs="stream")
def error_event(
    type: str = "overloaded_error", message: str = "Overloaded", after: Count = 0
) -> Break:
    """An error comes as an event after a 200.

    Args:
        type: The error's type.
        message: Its text.
        after: Events before it.
    """
    return lambda reply, received: _failed(reply, received, type, message, after)


@preset(
    "END",
    _ERRORS,
    right="Know an overload by its text too, when the type says less.",
    needs="stream",
)
def overloaded_as_api_error(after: Count = 0) -> Break:
    """An overload comes as an event of the type `api_error`; only its text says so.

    Args:
        after: Events before it.
    """
    return lambda reply, received: _failed(reply, received, "api_error", "Overloaded", after)


@preset(
    "END",
    "anthropic-sdk-python#688; adk-anthropic-go PR#32",
    right="Nothing is sent again by itself once content was handed on: raise, with the part.",
    needs="stream",
)
def error_after_content(type: str = "overloaded_error", message: str = "Overloaded") -> Break:
    """An error comes as an event in place of the answer's proper end.

    Args:
        type: The error's type.
        message: Its text.
    """

    def failed(reply: Reply, received: Received) -> Script:
        return _failed(reply, received, type, message, len(_until_end(reply)))

    return failed


@preset(
    "END",
    _IN_BAND,
    right="An `error` at the top is an error, whatever stands beside it.",
    needs="stream",
)
def error_object(after: Count = 0, done: bool = True, message: str = "the model crashed") -> Break:
    """An event without a name holds an error in place of content.

    Args:
        after: Events before it.
        done: Whether `[DONE]` follows.
        message: Text of the error.
    """
    failed = event({"error": {"message": message, "type": "server_error", "code": 500}})
    rest = [_DONE] if done else []
    return lambda reply, received: reply.script([*reply.pieces[:after], failed, *rest])


@preset(
    "END",
    _IN_BAND,
    right="An `error` at the top is an error, whatever stands beside it.",
    needs="stream",
    apis="openai.chat",
)
def error_beside_choices(after: Count = 2, message: str = "the model crashed") -> Break:
    """The last chunk has choices that finish with `error`, and an error beside them.

    Args:
        after: Events before it.
        message: Text of the error.
    """

    def failed(reply: Reply, received: Received) -> Script:
        choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
        error = {"message": message, "code": 502}
        last = chat_chunk(reply, choices=[choice], error=error)
        return reply.script([*reply.pieces[:after], last, _DONE])

    return failed


@preset(
    "END",
    _IN_BAND,
    right="A stream that ends without any content is suspicious, and flagged.",
    needs="stream",
    apis="openai.chat",
)
def only_done() -> Break:
    """The stream holds `[DONE]` and nothing else."""
    return lambda reply, received: reply.script([_DONE])


@preset(
    "END",
    "openai-python#3440, PR#3442, PR#3512, PR#3520, PR#3581, #95",
    right="Read to the end of the body within a small bound, so that the connection is reused.",
    needs="stream",
)
def late_terminator(seconds: Seconds = 0.05) -> Break:
    """The body's end comes some time after the terminal event.

    Args:
        seconds: How long after.
    """
    return lambda reply, received: reply.script(after=[Wait(seconds), End()])


def _until_end(reply: Reply) -> list[Piece]:
    """The events before the answer's proper end."""
    ends = [number for number, piece in enumerate(reply.pieces) if is_end(piece)]
    return list(reply.pieces[: ends[0] if ends else -1])


def _failed(reply: Reply, received: Received, type: str, message: str, after: int) -> Script:
    kept = reply.pieces[:after]
    return reply.script([*kept, error_piece(received, type, message, len(kept))])


def _stopped(events: int, how: Op) -> Break:
    return lambda reply, received: reply.script(reply.pieces[:events], after=[how])


def _mid_chunk(reply: Reply, events: int, how: Op) -> Script:
    events = min(events, len(reply.pieces) - 1)
    data = reply.pieces[events].data
    part = b"%x\r\n" % len(data) + data[: len(data) // 2]
    return reply.script(reply.pieces[:events], head=reply.chunked(), after=[Raw(part), how])
