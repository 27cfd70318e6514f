"""What the scripted loopback server answers: one whole reply and one stream in each format.

No two answers are equal: each carries the number of the question that it answers.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = [
    "anthropic_reply",
    "anthropic_stream",
    "messages",
    "numbered",
    "openai_reply",
    "openai_stream",
    "stream_text",
    "whole_text",
]

_MARK = "#######"  # where the number of a question stands, with leading zeros
_TEXT = (
    f"{_MARK}: Paris is the capital of France. It lies on the Seine, in the north of the country, "
    "and has been its centre for more than a thousand years: of government, trade and art."
)
_WORDS = [f" {word}" if number % 8 else f" {_MARK}" for number, word in enumerate(_TEXT.split())]


def messages(number: int) -> list[dict[str, str]]:
    """What is asked for with this number."""
    return [{"role": "user", "content": f"Question {number:07}: what is the capital of France?"}]


def numbered(template: bytes, question: bytes) -> bytes:
    """An answer to `question`, the body of a request, from a template of one."""
    at = question.index(b"Question ") + len(b"Question ")
    return template.replace(_MARK.encode(), question[at : at + len(_MARK)])


def whole_text(number: int) -> str:
    """The text of a whole reply."""
    return _TEXT.replace(_MARK, f"{number:07}")


def stream_text(number: int, num_deltas: int) -> str:
    """The text of a stream, of all its pieces."""
    return "".join(map(_word, range(num_deltas))).replace(_MARK, f"{number:07}")


def _word(number: int) -> str:
    return _WORDS[number % len(_WORDS)]


def anthropic_reply() -> bytes:
    """A Messages reply, not streamed."""
    message = _message([{"type": "text", "text": _TEXT}], "end_turn", output_tokens=38)
    return json.dumps(message, separators=(",", ":")).encode()


def openai_reply() -> bytes:
    """A Chat Completions reply, not streamed."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": _TEXT, "refusal": None},
        "logprobs": None,
        "finish_reason": "stop",
    }
    return json.dumps(_completion("chat.completion", choice), separators=(",", ":")).encode()


def anthropic_stream(num_deltas: int) -> list[bytes]:
    """A Messages stream: each element is one event, `num_deltas` of them carry text."""
    start = _message([], None, output_tokens=1)
    block: dict[str, Any] = {"index": 0, "content_block": {"type": "text", "text": ""}}
    end = {"delta": {"stop_reason": "end_turn", "stop_sequence": None}}
    return [
        _event("message_start", message=start),
        _event("content_block_start", **block),
        *(
            _event(
                "content_block_delta",
                index=0,
                delta={"type": "text_delta", "text": _word(number)},
            )
            for number in range(num_deltas)
        ),
        _event("content_block_stop", index=0),
        _event("message_delta", **end, usage={"output_tokens": num_deltas}),
        _event("message_stop"),
    ]


def openai_stream(num_deltas: int) -> list[bytes]:
    """A Chat Completions stream: each element is one event, `num_deltas` of them carry text."""
    role = {"role": "assistant", "content": "", "refusal": None}
    return [
        _chunk(role, None),
        *(_chunk({"content": _word(number)}, None) for number in range(num_deltas)),
        _chunk({}, "stop"),
        b"data: [DONE]\n\n",
    ]


def _message(content: list[Any], stop_reason: str | None, *, output_tokens: int) -> dict[str, Any]:
    return {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 14,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": output_tokens,
        },
    }


def _completion(kind: str, choice: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": kind,
        "created": 1_741_569_952,
        "model": "gpt-4.1-2025-04-14",
        "choices": [choice],
        "usage": {"prompt_tokens": 14, "completion_tokens": 38, "total_tokens": 52},
        "service_tier": "default",
        "system_fingerprint": "fp_44709d6fcb",
    }


def _event(name: str, **fields: Any) -> bytes:
    data = json.dumps({"type": name, **fields}, separators=(",", ":"))
    return f"event: {name}\ndata: {data}\n\n".encode()


def _chunk(delta: dict[str, Any], finish_reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    chunk = _completion("chat.completion.chunk", choice) | {"usage": None}
    return f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n".encode()
