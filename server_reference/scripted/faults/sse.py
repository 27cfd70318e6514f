"""Faults in the lines of an event stream: legal forms that parsers get wrong, and illegal ones.

Source: WHATWG HTML, "Server-sent events", section 9.2.6 (interpreting an event stream).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle
from typing import Literal

from .formats import insert, is_terminal, prefix_text
from .parameters import Count, Number, Seconds, Size
from .pieces import Piece, Reply
from .presets import Break, preset

__all__ = [
    "bom_before_data",
    "comment_after_id",
    "comments_between",
    "cr_only",
    "crlf_split",
    "done_with_spaces",
    "endless_event",
    "event_without_data",
    "frames_after_done",
    "huge_line",
    "id_only_block",
    "mixed_line_ends",
    "no_blank_line",
    "no_space_after_colon",
    "retry_only_block",
    "split_characters",
    "two_spaces_after_colon",
    "unicode_line_separators",
]

_BOM = b"\xef\xbb\xbf"
_MIB = 2**20
_CONTROLS = b": \x0bdata: no line\x0c\x1c\x1d\x1edata: nor this\n"


@preset(
    "SSE",
    "codex-lb PR#1854; web-platform-tests eventsource/format-bom",
    right="Drop one mark at the very start, even when it comes in pieces; the first event counts.",
    needs="stream",
)
def bom_before_data(split: bool = False, gap: Seconds = 0.001) -> Break:
    """A byte order mark stands before the first line.

    Args:
        split: Whether each of its three bytes is a write of its own.
        gap: Seconds between these writes.
    """

    def marked(reply: Reply) -> list[Piece]:
        first = Piece(_BOM + reply.body)
        return _cut(first.data, (1, 2), gap) if split else [Piece(_BOM), *reply.pieces]

    return lambda reply, received: reply.script(marked(reply))


@preset(
    "SSE",
    "httpx-sse#34, PR#37; sseclient#9; codex-lb#1010; evalscope PR#1642",
    right="End lines at CRLF, LF and CR only, in bytes; these characters stay in the text.",
    needs="stream",
)
def unicode_line_separators(characters: str = "\u2028\u2029\u0085") -> Break:
    """The text begins with characters that other standards call line ends, and a comment holds
    VT, FF, FS, GS and RS.

    Args:
        characters: What is put before the answer's text.
    """

    def separated(reply: Reply) -> list[Piece]:
        first, *rest = prefix_text(reply.pieces, characters)
        return [replace(first, data=_CONTROLS + first.data), *rest]

    return lambda reply, received: reply.script(separated(reply))


@preset(
    "SSE",
    "liter-llm#152; astrid#171; Fabric PR#2203; sseclient PR#10; llama.cpp PR#28926",
    right="Decode whole lines, or keep the rest of a character for the next read.",
)
def split_characters(text: str = "é€😀", gap: Seconds = 0.001) -> Break:
    """A write ends after the first byte of each character that has several.

    Args:
        text: What is put before the answer's text, so that there are such characters.
        gap: Seconds between the writes.
    """

    def cut(reply: Reply) -> Iterable[Piece]:
        for piece in prefix_text(reply.pieces, text) if text else reply.pieces:
            places = [n + 1 for n, byte in enumerate(piece.data) if byte >= 0xC2]
            first, *rest = _cut(piece.data, places, gap)
            yield from (replace(first, wait=piece.wait), *rest)

    return lambda reply, received: reply.script(cut(reply))


@preset(
    "SSE",
    "openai-python#2722, #3833, PR#2721",
    right="A block without data is no event: take the time, go on reading.",
    needs="stream",
)
def retry_only_block(milliseconds: Count = 3000, after: Count = 0) -> Break:
    """A block holds a retry line and nothing else.

    Args:
        milliseconds: What the line says.
        after: Events before it.
    """
    return _inserted(b"retry: %d\n\n" % milliseconds, after)


@preset(
    "SSE",
    "openai-python#2722, #3833",
    right="A block without data is no event: keep the id, go on reading.",
    needs="stream",
)
def id_only_block(id: str = "1", after: Count = 0) -> Break:
    """A block holds an id line and nothing else.

    Args:
        id: What the line says.
        after: Events before it.
    """
    return _inserted(f"id: {id}\n\n".encode(), after)


@preset(
    "SSE",
    "web-platform-tests eventsource/event-data; openai-python tests/test_streaming",
    right="No event: nothing reaches the JSON parser, and the name is forgotten.",
    needs="stream",
)
def event_without_data(event: str = "ping", after: Count = 1) -> Break:
    """A block names its event and has no data.

    Args:
        event: The name.
        after: Events before it.
    """
    return _inserted(f"event: {event}\n\n".encode(), after)


@preset(
    "SSE",
    "llmgateway PR#2334; agents-at-scale-ark#1346; brainlid/langchain#259",
    right="A comment is no event, also when an id is remembered.",
    needs="stream",
)
def comment_after_id(id: str = "1", comment: str = "ping") -> Break:
    """The first event sets an id, and a comment follows each event.

    Args:
        id: The id.
        comment: Text of the comments.
    """
    head = f"id: {id}\n".encode()

    def with_id(reply: Reply) -> Iterable[Piece]:
        for number, piece in enumerate(reply.pieces):
            yield piece if number else replace(piece, data=head + piece.data)
            yield Piece(f": {comment}\n\n".encode())

    return lambda reply, received: reply.script(with_id(reply))


@preset(
    "SSE",
    "llmgateway PR#2334; agents-at-scale-ark#1346; brainlid/langchain#259",
    right="Skip comments; none is glued to the data that follows.",
    needs="stream",
)
def comments_between(every: Number = 1, comment: str = "ping") -> Break:
    """Comments stand between the events, as servers send them to keep a connection open.

    Args:
        every: Events between two comments.
        comment: Their text.
    """

    def commented(reply: Reply) -> Iterable[Piece]:
        for number, piece in enumerate(reply.pieces, 1):
            yield piece
            if number % every == 0:
                yield Piece(f": {comment}\n\n".encode())

    return lambda reply, received: reply.script(commented(reply))


@preset(
    "SSE",
    "aimock 1.28; codex-lb PR#1011; openai-python tests/test_sse_framing",
    right="Remember a CR at the end of a read; every place to split gives the same events.",
    needs="stream",
)
def crlf_split(gap: Seconds = 0.001) -> Break:
    """Lines end in CRLF, and a write ends inside each.

    Args:
        gap: Seconds between the writes.
    """

    def cut(reply: Reply) -> Iterable[Piece]:
        for piece in reply.pieces:
            data = piece.data.replace(b"\n", b"\r\n")
            places = [n + 1 for n, byte in enumerate(data) if byte == 0x0D]
            first, *rest = _cut(data, places, gap)
            yield from (replace(first, wait=piece.wait), *rest)

    return lambda reply, received: reply.script(cut(reply))


@preset(
    "SSE",
    "aimock 1.28; codex-lb PR#1011",
    right="CR alone ends a line; the last event does not wait for what may follow the CR.",
    needs="stream",
)
def cr_only() -> Break:
    """Lines end in CR alone."""
    return lambda reply, received: reply.script(
        replace(piece, data=piece.data.replace(b"\n", b"\r")) for piece in reply.pieces
    )


@preset(
    "SSE",
    "aimock 1.28; codex-lb PR#1011",
    right="Each line end counts by itself; no blank line is missed or seen twice.",
    needs="stream",
)
def mixed_line_ends() -> Break:
    """Lines end in LF, CRLF and CR in turn."""

    def mixed(reply: Reply) -> Iterable[Piece]:
        ends, last = cycle([b"\n", b"\r\n", b"\r"]), b""
        for piece in reply.pieces:
            data = b""
            for line in piece.data.split(b"\n")[:-1]:
                end = next(ends)
                # CR, and for an empty line LF, would be one end.
                end = b"\r\n" if (last, line, end) == (b"\r", b"", b"\n") else end
                data, last = data + line + end, end
            yield replace(piece, data=data)

    return lambda reply, received: reply.script(mixed(reply))


@preset(
    "SSE",
    "web-platform-tests eventsource/format-data-before-final-empty-line",
    right="Drop the event that was not finished, and say that the stream ended early.",
    needs="stream",
)
def no_blank_line() -> Break:
    """The stream ends after the last event's data, without its blank line."""

    def unfinished(reply: Reply) -> list[Piece]:
        *others, last = reply.pieces
        return [*others, replace(last, data=last.data[:-1])]

    return lambda reply, received: reply.script(unfinished(reply))


@preset(
    "SSE",
    "aiohttp#4453; Agents-for-python#507; python-genai#2248; TensorRT-LLM PR#13952; "
    "ansible-ai-connect-service#2000; open-webui PR#24928",
    right="Read it: the only limit is one that can be set, of tens of MiB.",
)
def huge_line(mib: Size = 2.0) -> Break:
    """One line of data is megabytes long.

    Args:
        mib: Length in MiB of the letters that are put before the answer's text.
    """
    return lambda reply, received: reply.script(prefix_text(reply.pieces, "a" * int(mib * _MIB)))


@preset(
    "SSE",
    "httpx2 PR#1071; undici's limit on the data of an event",
    right="Fail by name at a limit that can be set; memory stays bounded.",
    needs="stream",
)
def endless_event(mib: Size = 8.0, line_kib: Number = 64) -> Break:
    """An event never ends: line after line of data, and no blank line.

    Args:
        mib: What comes until the stream ends, in MiB.
        line_kib: Length of a line in KiB.
    """
    line = b"data: " + b"a" * (line_kib * 1024 - 7) + b"\n"
    lines = [Piece(line)] * max(1, int(mib * 1024 / line_kib))
    return lambda reply, received: reply.script([*reply.pieces[:1], *lines])


@preset(
    "SSE",
    "web-platform-tests eventsource/field-parsing; pydantic-ai PR#6828",
    right="The space after the colon may be missing.",
    needs="stream",
)
def no_space_after_colon() -> Break:
    """No space stands between a field's name and its value."""
    return _respaced(b"")


@preset(
    "SSE",
    "web-platform-tests eventsource/format-leading-space; pydantic-ai PR#6828",
    right="Take one space away at most; the second belongs to the value.",
    needs="stream",
)
def two_spaces_after_colon() -> Break:
    """Two spaces stand between `data:` and its value."""
    return _respaced(b"  ", names=(b"data",))


@preset(
    "SSE",
    "TensorRT-LLM PR#18289; aimock 1.35.1",
    right="Know the terminal marker by its text without spaces, before any JSON is parsed.",
    needs="stream",
    apis="openai.chat",
)
def done_with_spaces(where: Literal["both", "before", "after"] = "both") -> Break:
    """Spaces stand around the terminal `[DONE]`.

    Args:
        where: Before it, after it, or both.
    """
    before = b"  " if where != "after" else b""
    after = b" " if where != "before" else b""
    spaced = Piece(b"data: " + before + b"[DONE]" + after + b"\n\n")
    return lambda reply, received: reply.script(
        spaced if piece.text == b"[DONE]" else piece for piece in reply.pieces
    )


@preset(
    "SSE",
    "TensorRT-LLM PR#18289; aimock 1.35.1",
    right="After the terminal event read on to the end, and parse nothing.",
    needs="stream",
)
def frames_after_done(frames: Number = 2) -> Break:
    """Events that are no JSON follow the terminal event.

    Args:
        frames: How many.
    """
    extra = [Piece(b"data: after the end\n\n")] * frames

    def longer(reply: Reply) -> list[Piece]:
        ends = [n for n, piece in enumerate(reply.pieces, 1) if is_terminal(piece)]
        return insert(reply.pieces, ends[-1] if ends else len(reply.pieces), *extra)

    return lambda reply, received: reply.script(longer(reply))


def _inserted(block: bytes, after: int) -> Break:
    return lambda reply, received: reply.script(insert(reply.pieces, after, Piece(block)))


def _respaced(spaces: bytes, names: Iterable[bytes] = (b"data", b"event")) -> Break:
    def respaced(piece: Piece) -> Piece:
        lines = piece.data.split(b"\n")
        for number, line in enumerate(lines):
            name, colon, value = line.partition(b": ")
            if colon and name in names:
                lines[number] = name + b":" + spaces + value
        return replace(piece, data=b"\n".join(lines))

    return lambda reply, received: reply.script(map(respaced, reply.pieces))


def _cut(data: bytes, places: Iterable[int], gap: float) -> list[Piece]:
    ends = [*places, len(data)]
    starts = [0, *ends[:-1]]
    parts = [data[start:end] for start, end in zip(starts, ends, strict=True) if end > start]
    return [Piece(part, gap if number else 0.0) for number, part in enumerate(parts)]
