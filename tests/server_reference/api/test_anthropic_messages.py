from __future__ import annotations

import json

import pytest

from server_reference.api.anthropic_messages import IGNORED, AnthropicMessages, read_request
from server_reference.api.errors import ApiError
from server_reference.api.events import Finished, Started, TextDelta
from tests.server_reference.api.written import as_reply, as_stream

WIRE = AnthropicMessages()


def a_body(**fields):
    ordinary = {
        "model": "tiny",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": "Hello"}],
    }
    return json.dumps(ordinary | fields).encode()


def a_stream(*what, **fields):
    """What a writer makes of an event stream."""
    return as_stream(WIRE, read_request(a_body(**fields)), *what)


def test_an_ordinary_request_is_read():
    request = read_request(
        a_body(
            system="Be brief.",
            temperature=0.5,
            top_k=3,
            top_p=0.9,
            stop_sequences=["END"],
            stream=True,
        )
    )

    assert request.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ]
    assert (request.temperature, request.top_k, request.top_p) == (0.5, 3, 0.9)
    assert (request.max_tokens, request.stop, request.stream) == (5, ("END",), True)


def test_text_blocks_are_text_and_their_marks_are_ignored():
    blocks = [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "b", "citations": None},
    ]

    request = read_request(a_body(system=blocks, messages=[{"role": "user", "content": blocks}]))

    assert [message["content"] for message in request.messages] == ["a\nb", "a\nb"]


def test_a_last_assistant_message_is_what_the_answer_starts_with():
    messages = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "The"}]

    request = read_request(a_body(messages=messages))

    assert request.messages == [{"role": "user", "content": "Q"}]
    assert request.prefill == "The"


@pytest.mark.parametrize("name", IGNORED)
def test_what_cannot_change_the_text_is_ignored(name):
    assert read_request(a_body(**{name: {"some": "thing"}})) == read_request(a_body())


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"tools": []}, id="no-tools"),
        pytest.param({"thinking": {"type": "disabled"}}, id="no-thinking"),
        pytest.param({"tool_choice": None}, id="null"),
    ],
)
def test_a_neutral_value_of_what_is_not_implemented_is_let_through(fields):
    assert read_request(a_body(**fields)) == read_request(a_body())


def user(content):
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"messages": []}, "messages", id="no-messages"),
        pytest.param({"messages": None}, "messages", id="messages-null"),
        pytest.param({"messages": "hi"}, "messages", id="messages-text"),
        pytest.param({"messages": [1]}, "messages[0]", id="message-no-object"),
        pytest.param({"messages": [{"content": "x"}]}, "messages[0].role", id="no-role"),
        pytest.param(
            {"messages": [user("a"), {"role": "tool", "content": "x"}]},
            "messages[1].role",
            id="unknown-role",
        ),
        pytest.param(
            {"messages": [{"role": "system", "content": "x"}]}, "messages[0].role", id="system-role"
        ),
        pytest.param({"messages": [{"role": "user"}]}, "messages[0].content", id="no-content"),
        pytest.param({"messages": [user(7)]}, "messages[0].content", id="content-number"),
        pytest.param({"messages": [user("")]}, "messages[0].content", id="content-empty"),
        pytest.param({"messages": [user([])]}, "messages[0].content", id="no-blocks"),
        pytest.param(
            {"messages": [user([{"type": "image", "source": {}}])]},
            "messages[0].content[0].type",
            id="image",
        ),
        pytest.param(
            {"messages": [user([{"type": "text", "text": "a"}, {"type": "text"}])]},
            "messages[0].content[1].text",
            id="block-without-text",
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "content": "x"}]}, "messages", id="prefill-alone"
        ),
        pytest.param(
            {"system": "s", "messages": [{"role": "assistant", "content": "x"}]},
            "messages",
            id="prefill-and-system-alone",
        ),
        pytest.param(
            {"messages": [{**user("a"), "nmae": 1}]}, "messages[0].nmae", id="unknown-in-message"
        ),
        pytest.param({"model": None}, "model", id="no-model"),
        pytest.param({"model": 4}, "model", id="model-number"),
        pytest.param({"max_tokens": None}, "max_tokens", id="no-max-tokens"),
        pytest.param({"max_tokens": -1}, "max_tokens", id="max-tokens-negative"),
        pytest.param({"max_tokens": 1.5}, "max_tokens", id="max-tokens-fraction"),
        pytest.param({"max_tokens": True}, "max_tokens", id="max-tokens-boolean"),
        pytest.param({"max_tokens": 0, "stream": True}, "max_tokens", id="prefill-only-streamed"),
        pytest.param({"stream": "yes"}, "stream", id="stream-text"),
        pytest.param({"temperature": 1.1}, "temperature", id="temperature-high"),
        pytest.param({"temperature": "0"}, "temperature", id="temperature-text"),
        pytest.param({"top_p": -0.1}, "top_p", id="top-p-negative"),
        pytest.param({"top_k": -1}, "top_k", id="top-k-negative"),
        pytest.param({"top_k": 2**63}, "top_k", id="top-k-huge"),
        pytest.param({"stop_sequences": "x"}, "stop_sequences", id="stop-text"),
        pytest.param({"stop_sequences": ["a", 1]}, "stop_sequences", id="stop-number"),
        pytest.param({"stop_sequences": [""]}, "stop_sequences", id="stop-empty"),
        pytest.param({"system": 1}, "system", id="system-number"),
        pytest.param({"tools": [{"name": "f"}]}, "tools[0].input_schema", id="tools"),
        pytest.param({"tool_choice": {"type": "any"}}, "tool_choice", id="tool-choice"),
        pytest.param({"thinking": {"type": "enabled"}}, "thinking", id="thinking"),
        pytest.param({"output_config": {"effort": "low"}}, "output_config.effort", id="effort"),
        pytest.param({"max_token": 1}, "max_token", id="unknown-field"),
    ],
)
def test_a_wrong_field_is_named(fields, param):
    with pytest.raises(ApiError) as refused:
        read_request(a_body(**fields))

    assert refused.value.param == param
    assert refused.value.message.startswith(param)
    assert refused.value.status("anthropic") == 400


@pytest.mark.parametrize("digits", [20, 40, 400])
def test_a_number_beyond_all_bounds_is_refused(digits):
    with pytest.raises(ApiError) as refused:
        read_request(a_body(temperature=10**digits))

    assert refused.value.status("anthropic") == 400


def test_an_unknown_field_is_answered_with_the_nearest_known():
    with pytest.raises(ApiError, match="did you mean max_tokens"):
        read_request(a_body(max_token=1))


def test_zero_tokens_only_fill_the_cache():
    assert read_request(a_body(max_tokens=0)).max_tokens == 0


def test_counting_needs_no_max_tokens():
    body = json.dumps({"model": "tiny", "messages": [user("hi")]}).encode()

    assert read_request(body, counting=True).max_tokens is None


def test_events_come_in_the_order_of_the_api():
    stream = a_stream(
        Started(10, 4), TextDelta("a"), TextDelta("b"), Finished("length", 2), stream=True
    )

    assert [name for name, _ in stream] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert [data["type"] for _, data in stream] == [name for name, _ in stream]


def test_the_start_tells_the_real_input_and_what_the_cache_gave():
    """Proxies send 0 here and readers take it for the truth (vllm-project/vllm#49456)."""
    (_, start), *_ = a_stream(Started(10, 4), Finished("stop", 0))

    message = start["message"]
    assert message["stop_reason"] is None
    assert message["stop_sequence"] is None
    assert message["content"] == []
    assert message["usage"]["input_tokens"] == 6
    assert message["usage"]["cache_read_input_tokens"] == 4
    assert message["usage"]["cache_creation_input_tokens"] == 0


def test_the_last_counts_are_cumulative_and_have_every_key():
    """Clients stop at a missing key (BerriAI/litellm#24176)."""
    stream = a_stream(Started(10, 4), TextDelta("a"), Finished("stop", 7))

    assert stream[-2][1]["usage"] == {
        "input_tokens": 6,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 7,
    }


@pytest.mark.parametrize(
    ("finished", "reason", "sequence"),
    [
        pytest.param(Finished("stop", 1), "end_turn", None, id="end-of-turn"),
        pytest.param(Finished("length", 1), "max_tokens", None, id="max-tokens"),
        pytest.param(Finished("stop_sequence", 1, "END"), "stop_sequence", "END", id="stop-string"),
        pytest.param(Finished("context", 1), "model_context_window_exceeded", None, id="context"),
    ],
)
def test_both_forms_say_why_the_output_ended(finished, reason, sequence):
    """Some servers always say end_turn (vllm-project/vllm#48273)."""
    stream = a_stream(Started(3, 0), TextDelta("a"), finished)
    whole = as_reply(WIRE, read_request(a_body()), Started(3, 0), TextDelta("a"), finished)

    assert stream[-2][1]["delta"] == {"stop_reason": reason, "stop_sequence": sequence}
    assert (whole["stop_reason"], whole["stop_sequence"]) == (reason, sequence)


def test_an_output_without_text_has_no_block():
    stream = a_stream(Started(3, 0), Finished("stop", 0))
    whole = as_reply(WIRE, read_request(a_body()), Started(3, 0), Finished("stop", 0))

    assert [name for name, _ in stream][2:] == ["message_delta", "message_stop"]
    assert whole["content"] == []


def test_nothing_follows_an_error_in_the_stream():
    stream = a_stream(Started(3, 0), TextDelta("a"), ApiError("overloaded", "busy"))

    name, data = stream[-1]
    assert name == "error"
    assert data["error"] == {"type": "overloaded_error", "message": "busy"}
    assert data["request_id"] == "req_1"


def test_a_whole_reply_holds_what_the_stream_would():
    what = [Started(10, 4), TextDelta("a"), TextDelta("b"), Finished("length", 2)]

    reply = as_reply(WIRE, read_request(a_body()), *what)

    assert reply["id"] == "msg_1"
    assert (reply["type"], reply["role"], reply["model"]) == ("message", "assistant", "tiny")
    assert reply["content"] == [{"type": "text", "text": "ab"}]
    assert reply["usage"]["output_tokens"] == 2
