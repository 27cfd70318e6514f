"""The bytes of each fault in the form or the end of an event stream, as a raw client sees them."""

from __future__ import annotations

import pytest

from tests.end_to_end.fault_bytes import END, broken, case, changed, data, expected, whole
from tests.end_to_end.stream_changes import DONE, chat, inserted

PING = b": ping\n\n"
MIB = 2**20


def set_text(text):
    """A chunk's change: other text."""

    def change(fields):
        fields["choices"][0]["delta"]["content"] = text

    return change


def with_first_text(chunks, text):
    return [chunks[0], changed(chunks[1], set_text(text)), *chunks[2:]]


def head_without(name, value=None):
    """A head's change: a field left out, or with another value in its place."""

    def change(head):
        lines = head.split(b"\r\n")
        at = next(n for n, line in enumerate(lines) if line.startswith(name + b": "))
        del lines[at]
        if value is not None:
            lines.insert(1, name + b": " + value)
        return b"\r\n".join(lines)

    return change


def promising(length):
    return lambda head: (
        head_without(b"transfer-encoding")(head) + b"\r\ncontent-length: %d" % length
    )


def of_type(value):
    return head_without(b"content-type", value)


def halves(chunks, marks, text):
    """The first text's event cut after each byte that begins a longer character."""
    event = with_first_text(chunks, text)[1]
    parts = [b""]
    for number in range(len(event)):
        parts[-1] += event[number : number + 1]
        if event[number] >= 0xC2:
            parts.append(b"")
    assert len(parts) == marks + 1
    return [chunks[0], *parts, *chunks[2:]]


def crlf_parts(chunks):
    text = b"".join(chunks).replace(b"\n", b"\r\n")
    ends = []
    for event in text.split(b"\r\n\r\n")[:-1]:
        lines = event.split(b"\r\n")
        ends += [lines[0] + b"\r", *[b"\n" + line + b"\r" for line in lines[1:]], b"\n\r", b"\n"]
    return ends


def respaced(old, new):
    return lambda chunks: [chunk.replace(old, new) for chunk in chunks]


def first_half(number):
    def tail(chunks):
        return b"%x\r\n" % len(chunks[number]) + chunks[number][: len(chunks[number]) // 2]

    return tail


def bare(error):
    return data({"error": error})


SSE = [
    case("bom_before_data", chunks=lambda c: [b"\xef\xbb\xbf", *c]),
    case(
        "bom_before_data",
        split=True,
        waited=0.002,
        chunks=lambda c: [b"\xef", b"\xbb", b"\xbf" + b"".join(c)],
    ),
    case(
        "unicode_line_separators",
        chunks=lambda c: [
            b": \x0bdata: no line\x0c\x1c\x1d\x1edata: nor this\n" + c[0],
            *with_first_text(c, "\u2028\u2029\u0085Hello")[1:],
        ],
    ),
    case("split_characters", waited=0.003, chunks=lambda c: halves(c, 3, "é€😀Hello")),
    case("retry_only_block", chunks=inserted(0, b"retry: 3000\n\n")),
    case("id_only_block", id="x", after=2, chunks=inserted(2, b"id: x\n\n")),
    case("event_without_data", chunks=inserted(1, b"event: ping\n\n")),
    case(
        "comment_after_id",
        chunks=lambda c: [
            one for n, e in enumerate(c) for one in ((b"" if n else b"id: 1\n") + e, PING)
        ],
    ),
    case("comments_between", chunks=lambda c: [one for e in c for one in (e, PING)]),
    case("comments_between", every=4, comment="hi", chunks=inserted(4, b": hi\n\n")),
    case("crlf_split", api="anthropic.messages", waited=0.027, chunks=crlf_parts),
    case("cr_only", chunks=respaced(b"\n", b"\r")),
    case("no_blank_line", chunks=lambda c: [*c[:-1], c[-1][:-1]]),
    case("huge_line", chunks=lambda c: with_first_text(c, "a" * (2 * MIB) + "Hello")),
    case(
        "endless_event",
        mib=1,
        chunks=lambda c: [c[0], *[b"data: " + b"a" * (64 * 1024 - 7) + b"\n"] * 16],
    ),
    case("no_space_after_colon", api="anthropic.messages", chunks=respaced(b": ", b":")),
    case("two_spaces_after_colon", chunks=respaced(b"data: ", b"data:  ")),
    case("done_with_spaces", chunks=lambda c: [*c[:-1], b"data:   [DONE] \n\n"]),
    case("done_with_spaces", where="after", chunks=lambda c: [*c[:-1], b"data: [DONE] \n\n"]),
    case("frames_after_done", chunks=lambda c: [*c, *[b"data: after the end\n\n"] * 2]),
    case(
        "html_instead_of_stream",
        head=of_type(b"text/html; charset=utf-8"),
        chunks=lambda c: [b"<!DOCTYPE html><html><body><h1>Please sign in</h1></body></html>\n"],
    ),
    case(
        "json_instead_of_stream",
        head=of_type(b"application/json"),
        chunks=lambda c: [b'{"error":{"message":"model not loaded"}}'],
    ),
    case("content_type_with_semicolon", head=of_type(b"text/event-stream;")),
    case("content_type_in_capitals", head=of_type(b"TEXT/EVENT-STREAM")),
    case("charset_missing", head=of_type(b"text/event-stream")),
    case(
        "wrong_charset",
        head=of_type(b"text/event-stream; charset=windows-1252"),
        chunks=lambda c: with_first_text(c, "é€ Hello"),
    ),
]

ENDS = [
    case("cut_before_terminal", chunks=lambda c: c[:4]),
    case("cut_before_terminal", api="anthropic.messages", chunks=lambda c: c[:7]),
    case("cut_before_terminal", api="openai.responses", chunks=lambda c: c[:-1]),
    case("cut_after", chunks=lambda c: c[:3]),
    case("empty_stream", chunks=lambda c: []),
    case("no_done", chunks=lambda c: c[:-1]),
    case("fin_mid_chunk", chunks=lambda c: c[:3], tail=first_half(3), end="fin"),
    case("fin_after", events=2, chunks=lambda c: c[:2], tail=b"", end="fin"),
    case("fin_instead_of_terminator", tail=b"", end="fin"),
    case(
        "short_body",
        head=promising(len(b"".join(whole("openai.chat").chunks))),
        chunks=lambda c: [b"".join(c)[:-10]],
        end="fin",
        tail=b"",
    ),
    case("reset_after", chunks=lambda c: c[:3], tail=b"", end="rst"),
    case("reset_mid_chunk", events=1, chunks=lambda c: c[:1], tail=first_half(1), end="rst"),
    case("half_close_after", chunks=lambda c: c[:3], tail=b"", end="fin"),
    case(
        "error_event",
        api="anthropic.messages",
        after=1,
        chunks=lambda c: [
            c[0],
            data(
                {
                    "type": "error",
                    "error": {"type": "overloaded_error", "message": "Overloaded"},
                    "request_id": "req_scripted0000000000000001",
                },
                "error",
            ),
        ],
    ),
    case(
        "error_event",
        chunks=lambda c: [
            bare({"message": "Overloaded", "type": "overloaded_error", "param": None, "code": None})
        ],
    ),
    case(
        "error_event",
        api="openai.responses",
        type="server_error",
        message="gone",
        after=2,
        chunks=lambda c: [
            *c[:2],
            data(
                {
                    "type": "error",
                    "sequence_number": 2,
                    "code": "server_error",
                    "message": "gone",
                    "param": None,
                },
                "error",
            ),
        ],
    ),
    case(
        "overloaded_as_api_error",
        chunks=lambda c: [
            bare({"message": "Overloaded", "type": "api_error", "param": None, "code": None})
        ],
    ),
    case(
        "error_after_content",
        chunks=lambda c: [
            *c[:4],
            bare(
                {"message": "Overloaded", "type": "overloaded_error", "param": None, "code": None}
            ),
        ],
    ),
    case(
        "error_object",
        chunks=lambda c: [
            bare({"message": "the model crashed", "type": "server_error", "code": 500}),
            DONE,
        ],
    ),
    case(
        "error_object",
        done=False,
        after=1,
        message="no",
        chunks=lambda c: [c[0], bare({"message": "no", "type": "server_error", "code": 500})],
    ),
    case(
        "error_beside_choices",
        chunks=lambda c: [
            *c[:2],
            chat(
                c,
                choices=[{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
                error={"message": "the model crashed", "code": 502},
            ),
            DONE,
        ],
    ),
    case("only_done", chunks=lambda c: [DONE]),
    case("late_terminator", seconds=3, waited=3.0),
]


@pytest.mark.parametrize("one", SSE + ENDS, ids=lambda one: one.name)
def test_a_stream_breaks_exactly_so(one):
    assert broken(one) == expected(one)


def test_mixed_line_ends_give_back_every_line():
    seen = broken(case("mixed_line_ends"))
    text = b"".join(seen.chunks)

    assert seen.chunks[0].endswith(b"\n\r\n")
    assert seen.chunks[1].endswith(b"\r\r\n")
    assert text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") == b"".join(
        whole("openai.chat").chunks
    )


def test_a_terminator_comes_later_than_the_terminal_event():
    """Not only later than the head: the wait stands between the two."""
    seen = broken(case("late_terminator", seconds=3))

    assert (seen.chunks[-1], seen.tail, seen.waited) == (DONE, END, 3.0)


TESTED = {one.name for one in SSE + ENDS} | {"mixed_line_ends"}
