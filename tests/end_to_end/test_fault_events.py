"""What the events hold under each fault of their shapes, tool calls and counts."""

from __future__ import annotations

import json

import pytest

from server_reference.scripted import Answer
from server_reference.scripted.faults import fault
from tests.end_to_end.fault_bytes import broken, case, changed, data, expected, play, whole
from tests.end_to_end.stream_changes import DONE, chat, inserted


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


TESTED = {one.name for one in SHAPES} | {
    "arguments_split",
    "cached_usage",
    "nothing_cached",
    "null_arguments",
    "reasoning_usage",
    "tool_delta_before_start",
    "tool_index_reused",
    "zero_usage",
}
