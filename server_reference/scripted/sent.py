"""What a reply said, read back from its bytes: text, errors, and whether it came to its end.

Read from the wire and not from the rules, so that it holds for faults and recordings too.

Source: Anthropic API reference, "Streaming messages"; OpenAI API reference, "Chat completion
chunks" and "Responses streaming events".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from .entries import Entry

__all__ = ["Sent", "read_sent"]

_BLANK = re.compile(rb"(?:\r\n|\n|\r){2}")
_LINE = re.compile(rb"\r\n|\n|\r")
_CHAT = "openai.chat"
_MONEY = frozenset(
    "billing_error insufficient_quota billing_hard_limit_reached credit_balance_exhausted "
    "organization_spend_limit_exceeded organization_usage_limit_exceeded "
    "project_spend_limit_exceeded enforced_spend_limit_reached contract_spend_limit_reached".split()
)


@dataclass(slots=True)
class Sent:
    """What a reply said.

    Attributes:
        text: The model's text; `None` when it cannot be known.
        error: The error that it carried, in a few words.
        has_end: Whether a stream came to the event that ends its format, or a whole reply to
            its last byte.
        is_money: Whether the error says that quota or credit is used up.
    """

    text: str | None = None
    error: str | None = None
    has_end: bool = False
    is_money: bool = False


def read_sent(entry: Entry) -> Sent:
    """What was sent for `entry`; a reply longer than the journal's cap has no text."""
    is_plain = entry.reply_header("content-encoding") in (None, "identity")
    is_whole = is_plain and entry.reply_bytes == len(entry.reply)
    if entry.is_event_stream and is_plain:
        # In Chat the mark at the end says nothing of an answer: servers that lost one send it too.
        sent = Sent(has_end=entry.has_terminal and (entry.has_content or entry.api != _CHAT))
        pieces: list[str] = []
        for fields in _events(entry.reply):
            _note_error(fields, sent)
            pieces.append(_delta(fields))
            sent.has_end = sent.has_end or _finishes(fields)
        sent.text = "".join(pieces) if is_whole else None
        return sent
    sent = Sent(has_end=entry.is_whole)
    whole = _object(entry.reply) if is_whole else None
    if whole is not None:
        _note_error(whole, sent)
        sent.text = _whole_text(whole)
    if entry.status is not None and entry.status >= 400 and sent.error is None:
        sent.error = f"status {entry.status}"
    return sent


def _events(reply: bytes) -> Iterator[dict[str, Any]]:
    for block in _BLANK.split(reply):
        lines = _LINE.split(block)
        data = b"\n".join(line[5:] for line in lines if line.startswith(b"data:"))
        fields = _object(data)
        if fields is not None:
            yield fields


def _finishes(fields: dict[str, Any]) -> bool:
    """Whether it ends a Chat Completions stream, be it by `[DONE]` or not."""
    choices = [_dict(one) for one in _list(fields.get("choices"))]
    return any(one.get("finish_reason") not in (None, "error") for one in choices)


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        # As clients read it: bytes that are no UTF-8 are replaced, and the rest counts.
        found = msgspec.json.decode(data.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _note_error(fields: dict[str, Any], sent: Sent) -> None:
    if fields.get("type") in ("response.failed", "response.completed"):
        fields = _dict(fields.get("response"))
    elif fields.get("type") == "error" and not fields.get("error"):  # of Responses
        fields = {"error": fields}
    error = fields.get("error")
    if not error:
        return
    told = _dict(error)
    finer = _dict(told.get("details")).get("error_code")
    words = [error] if isinstance(error, str) else [told.get("type"), told.get("code"), finer]
    known = [word for word in words if isinstance(word, str)]
    sent.error = " ".join(known) or "an error"
    sent.is_money = not _MONEY.isdisjoint(known)


def _delta(fields: dict[str, Any]) -> str:
    """The text of one event."""
    delta = fields.get("delta")
    if fields.get("type") == "response.output_text.delta":
        return _str(delta)
    if fields.get("type") == "content_block_delta":
        return _str(_dict(delta).get("text"))
    if fields.get("type") == "content_block_start":
        return _str(_dict(fields.get("content_block")).get("text"))
    choices = [_dict(one) for one in _list(fields.get("choices"))]
    return "".join(
        _str(_dict(one.get("delta")).get("content")) for one in choices if not one.get("index")
    )


def _whole_text(fields: dict[str, Any]) -> str | None:
    """The text of a reply that is no stream; `None` for other endpoints' replies."""
    if "choices" in fields:
        choices = [_dict(one) for one in _list(fields["choices"])]
        return "".join(_str(_dict(one.get("message")).get("content")) for one in choices[:1])
    if "output" in fields:
        items = [_dict(one) for one in _list(fields["output"])]
        blocks = [_dict(block) for item in items for block in _list(item.get("content"))]
    elif "content" in fields:
        blocks = [_dict(block) for block in _list(fields["content"])]
    else:
        return None
    return "".join(_str(one.get("text")) for one in blocks)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""
