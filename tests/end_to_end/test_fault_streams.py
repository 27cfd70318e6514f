"""The bytes of each fault in an event stream, as a raw client sees them."""

from __future__ import annotations

import json

import pytest

from server_reference.scripted import Answer
from server_reference.scripted.faults import fault
from tests.end_to_end.fault_bytes import END, broken, case, changed, data, expected, play, whole

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"
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


def inserted(at, *new):
    return lambda chunks: [*chunks[:at], *new, *chunks[at:]]


def chat(chunks, **fields):
    """A chunk with the ids of the others."""
    first = json.loads(chunks[0].removeprefix(b"data: "))
    return data({key: first[key] for key in ("id", "object", "created", "model")} | fields)


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


def message_changed(change):
    """A whole reply's change; its length follows."""
    return lambda chunks: [changed(chunks[0], change)]


def put_field(fields):
    fields["vendor_field"] = {"nested": [1, None]}


def put_fields(chunks):
    return [chunk if b"[DONE]" in chunk else changed(chunk, put_field) for chunk in chunks]


def usage_of(prompt, completion):
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}


def with_usage(chunk, usage):
    return changed(chunk, lambda fields: fields | {"usage": usage})


def named(name, **fields):
    return data({"type": name, **fields}, name)


def deltas(output):
    usage = json.loads(whole("anthropic.messages").chunks[7].partition(b"data: ")[2])["usage"]
    delta = {"stop_reason": None, "stop_sequence": None}
    return named("message_delta", delta=delta, usage=usage | {"output_tokens": output})


FILTERED = [{"prompt_index": 0, "content_filter_results": {}}]
OFFSETS = {"check_offset": 0, "start_offset": 0, "end_offset": 1}

SHAPES = [
    case(
        "chunk_without_choices",
        chunks=lambda c: [chat(c, choices=[], prompt_filter_results=FILTERED), *c],
    ),
    case(
        "chunk_without_choices",
        at="end",
        chunks=lambda c: [*c[:-1], chat(c, choices=[], prompt_filter_results=FILTERED), DONE],
    ),
    case(
        "choice_without_delta",
        chunks=lambda c: inserted(
            2,
            chat(
                c,
                choices=[{"index": 0, "finish_reason": None, "content_filter_offsets": OFFSETS}],
            ),
        )(c),
    ),
    case(
        "unknown_block_index",
        api="anthropic.messages",
        chunks=inserted(
            7,
            named("content_block_delta", index=7, delta={"type": "text_delta", "text": "lost"}),
        ),
    ),
    case(
        "unknown_event",
        api="openai.responses",
        chunks=inserted(1, named("vendor.note", note="new")),
    ),
    case(
        "unknown_event",
        chunks=lambda c: inserted(1, chat(c, type="vendor.note", note="new", choices=[]))(c),
    ),
    case(
        "unknown_block",
        api="anthropic.messages",
        chunks=inserted(
            7,
            named(
                "content_block_start",
                index=1,
                content_block={"type": "vendor_block", "note": "new"},
            ),
            named("content_block_delta", index=1, delta={"type": "vendor_block_delta"}),
            named("content_block_stop", index=1),
        ),
    ),
    case("unknown_fields", chunks=put_fields),
    case(
        "ping_between",
        api="anthropic.messages",
        every=3,
        chunks=lambda c: [*c[:3], named("ping"), *c[3:6], named("ping"), *c[6:]],
    ),
    case(
        "usage_after_finish",
        chunks=lambda c: [*c[:-1], chat(c, choices=[], usage=usage_of(7, 5)), DONE],
    ),
    case(
        "usage_then_null",
        chunks=lambda c: [
            with_usage(c[0], usage_of(7, 5)),
            *[with_usage(one, None) for one in c[1:-1]],
            DONE,
        ],
    ),
    case(
        "usage_on_every_chunk",
        chunks=lambda c: [
            *[with_usage(one, usage_of(7, number)) for number, one in enumerate(c[:-1])],
            DONE,
        ],
    ),
    case(
        "null_usage",
        usage=True,
        chunks=lambda c: [
            *c[:-2],
            changed(c[-2], lambda f: f | {"usage": dict.fromkeys(f["usage"])}),
            DONE,
        ],
    ),
    case("cumulative_usage", api="anthropic.messages", chunks=inserted(7, deltas(1), deltas(2))),
    case("no_usage", usage=True, chunks=lambda c: [
        *[changed(one, lambda f: None) for one in c[:-2]], DONE,
    ]),
]  # fmt: skip


@pytest.mark.parametrize("one", SHAPES, ids=lambda one: one.name)
def test_events_hold_exactly_this(one):
    assert broken(one) == expected(one)


def objects(seen):
    """What the events hold."""
    texts = [chunk.partition(b"data: ")[2] for chunk in seen.chunks]
    return [json.loads(text) for text in texts if text.strip() != b"[DONE]"]


def tool_calls(seen):
    return [
        call
        for fields in objects(seen)
        for choice in fields["choices"]
        for call in choice["delta"].get("tool_calls", ())
    ]


def test_two_tool_calls_share_an_index():
    calls = tool_calls(broken(case("tool_index_reused")))

    assert {call["index"] for call in calls} == {0}
    assert [call["id"] for call in calls if "id" in call] == ["call_weather", "call_time"]


def test_a_tool_call_begins_with_null():
    first, *rest = tool_calls(broken(case("null_arguments")))

    assert (first["id"], first["function"]["arguments"]) == ("call_weather", None)
    assert "".join(one["function"]["arguments"] for one in rest) == '{"city":"Paris"}'


@pytest.mark.parametrize("api", ["openai.chat", "anthropic.messages"])
def test_arguments_come_before_their_call_begins(api):
    chunks = broken(case("tool_delta_before_start", api=api)).chunks

    where = [next(n for n, c in enumerate(chunks) if t in c) for t in (b"city", b"get_weather")]

    assert where == sorted(where)


@pytest.mark.parametrize("api", ["openai.chat", "anthropic.messages", "openai.responses"])
@pytest.mark.parametrize(
    ("inside", "before", "after"),
    [
        pytest.param("number", '{"price_eur": 12', "345.67}", id="number"),
        pytest.param("escape", '{"note": "lines\\', 'nand tabs"}', id="escape"),
        pytest.param("pair", '{"note": "\\ud83d', '\\ude00"}', id="pair"),
        pytest.param("literal", '{"is_ready": tru', "e}", id="literal"),
    ],
)
def test_arguments_break_inside_a_value(api, inside, before, after):
    seen = broken(case("arguments_split", api=api, inside=inside))
    texts = [json.dumps(part)[1:-1].encode() for part in (before, after)]
    events = [n for n, chunk in enumerate(seen.chunks) for text in texts if text + b'"' in chunk]

    assert events[1] == events[0] + 1


def test_a_stream_can_end_inside_a_value():
    seen = broken(case("arguments_split", cut=True))

    assert seen.chunks[-1].endswith(
        b'{\\"price_eur\\": 12"}}]},"logprobs":null,"finish_reason":null}]}\n\n'
    )


COUNTS = [
    pytest.param("cached_usage", {}, (3, 0, 12304, 550, 0), id="written"),
    pytest.param(
        "cached_usage",
        {"uncached": 1200, "read": 500, "write": 300, "output": 4},
        (1200, 500, 300, 4, 0),
        id="read-and-written",
    ),
    pytest.param("reasoning_usage", {}, (7, 0, 0, 100, 80), id="reasoning"),
    pytest.param("zero_usage", {}, (0, 0, 0, 0, 0), id="zero"),
    pytest.param("nothing_cached", {}, (900, 0, 0, 5, 0), id="nothing-cached"),
]


@pytest.mark.parametrize(("name", "parameters", "counts"), COUNTS)
def test_a_messages_reply_counts_so(name, parameters, counts):
    seen = broken(case(name, api="anthropic.messages", stream=False, **parameters))
    usage = json.loads(seen.chunks[0])["usage"]

    assert counts == (
        usage["input_tokens"],
        usage["cache_read_input_tokens"],
        usage["cache_creation_input_tokens"],
        usage["output_tokens"],
        usage.get("output_tokens_details", {"thinking_tokens": 0})["thinking_tokens"],
    )
    assert f"content-length: {len(seen.chunks[0])}".encode() in seen.head


@pytest.mark.parametrize(("name", "parameters", "counts"), COUNTS)
def test_a_chat_stream_counts_so(name, parameters, counts):
    uncached, read, write, output, reasoning = counts
    usage = objects(broken(case(name, usage=True, **parameters)))[-1]["usage"]

    assert usage["prompt_tokens"] == uncached + read + write
    assert usage["prompt_tokens_details"]["cached_tokens"] == read
    assert usage["completion_tokens"] == output
    assert usage["completion_tokens_details"]["reasoning_tokens"] == reasoning


def test_a_reply_without_usage_cannot_have_other_counts():
    seen = play(Answer("x") | fault("cached_usage"))

    assert seen.head.startswith(b"HTTP/1.1 500")
    assert b"include_usage" in seen.chunks[0]


TESTED = {one.name for one in SSE + ENDS + SHAPES} | {
    "arguments_split",
    "cached_usage",
    "mixed_line_ends",
    "nothing_cached",
    "null_arguments",
    "reasoning_usage",
    "tool_delta_before_start",
    "tool_index_reused",
    "zero_usage",
}
