"""Requests in a file: one, many as lines of JSON, a batch of either provider, or plain text."""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from ..tokens.counting import Endpoint, endpoint_of
from ..tokens.encodings import bare_name

__all__ = ["LONGEST", "UnreadableError", "WrittenRequest", "requests_in"]

LONGEST = 32 << 20
"""Bytes of a request: what the Messages API takes at most (its error reference, 413)."""

_HAVE = ("messages", "input", "instructions", "prompt", "system")  # a request has one of these
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_ENDPOINTS: dict[str, Endpoint] = {
    "/chat/completions": "openai.chat",
    "/responses": "openai.responses",
    "/messages": "anthropic.messages",
    "/embeddings": "text",
    "/completions": "text",
}
_ENCODINGS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16",
              codecs.BOM_UTF16_BE: "utf-16"}  # fmt: skip


class UnreadableError(Exception):
    """A file holds no request; one sentence that says where and why."""


class WrittenRequest(Struct, frozen=True, kw_only=True):
    """A request as it stands in a file.

    Attributes:
        place: File and line, such as `requests.jsonl:3`.
        body: What would be sent; a text where it is no request.
        model: The one that it names.
        max_output: Output tokens that it allows, of all its answers together.
        is_batch: It is one of a batch.
    """

    place: str
    body: Any
    endpoint: Endpoint
    model: str | None = None
    max_output: int | None = None
    is_batch: bool = False


def requests_in(name: str, *, as_text: bool = False) -> Iterator[WrittenRequest]:
    """The requests of the file `name`, or of stdin for `-`.

    A file of lines is read line by line, so that it may be of any length.

    Args:
        as_text: Whatever it is, it counts as text.

    Raises:
        UnreadableError: It cannot be read, or holds no request.
    """
    shown = "stdin" if name == "-" else name
    found = None
    try:
        with _opened(name) as file:
            for found in _read(file, shown, as_text=as_text):
                yield found
    except OSError as error:
        raise UnreadableError(f"{shown} cannot be read: {error.strerror or error}") from None
    if found is None:
        raise UnreadableError(f"{shown} is empty: there is nothing to count")


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    if name != "-":
        return Path(name).open("rb")
    if sys.stdin is None or sys.stdin.closed:
        raise UnreadableError("stdin is closed")
    return nullcontext(sys.stdin.buffer)


def _read(file: BinaryIO, shown: str, *, as_text: bool) -> Iterator[WrittenRequest]:
    head = file.read(LONGEST + 1)
    if len(head) > LONGEST:
        yield from _many(file, head, shown, as_text=as_text)
        return
    text = _decoded(head, shown)
    bare = text.strip()
    if not bare:
        return
    if as_text or bare[0] not in "{[":
        yield WrittenRequest(place=shown, body=text, endpoint="text")
        return
    try:
        found = _parsed(text, shown)
    except UnreadableError:
        first, _, rest = bare.partition("\n")
        if not rest or not _is_json(first):
            raise
        for number, line in enumerate(text.split("\n"), 1):
            yield from _of_line(line, f"{shown}:{number}")
        return
    yield from _of_value(found, shown)


def _many(file: BinaryIO, head: bytes, shown: str, *, as_text: bool) -> Iterator[WrittenRequest]:
    """A file that is longer than any request: it must have one on each line."""
    first = head.partition(b"\n")[0]
    if as_text or len(first) > LONGEST or not _is_json(_decoded(first, shown)):
        raise UnreadableError(
            f"{shown} has {_size(file)} bytes, and a request may have {LONGEST:,}: give a smaller "
            "one, or one request on each line"
        )
    for number, line in enumerate(_lines(head, file), 1):
        if len(line) > LONGEST:
            raise UnreadableError(f"{shown}:{number} has more than {LONGEST:,} bytes")
        yield from _of_line(_decoded(line, f"{shown}:{number}"), f"{shown}:{number}")


def _size(file: BinaryIO) -> str:
    try:
        size = os.fstat(file.fileno()).st_size
    except OSError:  # no file behind it
        size = 0
    return f"{size:,}" if size > LONGEST else f"more than {LONGEST:,}"


def _lines(head: bytes, file: BinaryIO) -> Iterator[bytes]:
    *whole, rest = head.split(b"\n")
    yield from whole
    yield rest + file.readline(LONGEST + 1)
    while line := file.readline(LONGEST + 1):
        yield line


def _of_line(line: str, place: str) -> Iterator[WrittenRequest]:
    if not line.strip():
        return
    found = _parsed(line, place, is_line=True)
    if not isinstance(found, dict):
        raise UnreadableError(f"{place} must be a JSON object, not {_kind(found)}")
    yield from _of_value(found, place)


def _of_value(found: Any, place: str) -> Iterator[WrittenRequest]:
    """Requests in a value of JSON: itself, a batch, a list of them, or of messages."""
    batch = found.get("requests") if isinstance(found, dict) else found
    if not isinstance(batch, list):
        yield _request(found, place)
    elif batch and all(isinstance(one, dict) and "role" in one for one in batch):
        yield _request({"messages": batch}, place)
    else:
        for number, one in enumerate(batch):
            yield _request(one, f"{place}[{number}]")


def _request(found: Any, place: str) -> WrittenRequest:
    if not isinstance(found, dict):
        raise UnreadableError(f"{place} must be a request, a JSON object, not {_kind(found)}")
    inner = found.get("body", found.get("params")) if "custom_id" in found else None
    body = inner if isinstance(inner, dict) else found
    named = body.get("model")
    model = named if isinstance(named, str) and named.strip() else None
    url = str(found.get("url", "")).partition("?")[0]
    known = next((kind for end, kind in _ENDPOINTS.items() if url.endswith(end)), None)
    if known is None and inner is not None and "params" in found:
        known = "anthropic.messages"
    if known is None and not any(name in body for name in _HAVE):
        known = "text"
    return WrittenRequest(
        place=place,
        body=body,
        endpoint=known or endpoint_of(body, bare_name(model or "")),
        model=model,
        max_output=_max_output(body),
        is_batch=inner is not None,
    )


def _max_output(body: Mapping[str, Any]) -> int | None:
    limits = [body.get(name) for name in _LIMITS]
    found = [one for one in limits if isinstance(one, int) and not isinstance(one, bool)]
    answers = body.get("n")
    times = answers if isinstance(answers, int) and answers > 1 else 1
    return max(0, found[0]) * times if found else None


def _decoded(data: bytes, shown: str) -> str:
    encoding = next((name for mark, name in _ENCODINGS.items() if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"{shown} is no text: byte {data[error.start]:#04x} at {error.start:,} is not "
            f"{encoding.upper()}"
        ) from None
    if "\0" in text:
        raise UnreadableError(f"{shown} is no text: there is a zero byte at {text.index(chr(0)):,}")
    return text


def _parsed(text: str, place: str, *, is_line: bool = False) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = "" if is_line else f"line {error.lineno}, "
        raise UnreadableError(
            f"{place} is broken JSON ({line}column {error.colno}: {error.msg}); "
            "--text counts it as text"
        ) from None
    except (RecursionError, ValueError) as error:  # too deep, or a number of 5,000 digits
        raise UnreadableError(f"{place} is no request: {error}") from None


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _kind(value: Any) -> str:
    names = {str: "text", list: "a list", dict: "an object", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
