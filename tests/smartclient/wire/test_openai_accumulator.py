"""A completion from its chunks, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest

from smartclient.wire.encode import encode
from smartclient.wire.openai_chat import OpenAIChat
from smartclient.wire.sse import Event


def accumulated(*chunks: dict[str, Any]) -> Any:
    adapter = OpenAIChat()
    accumulator = adapter.accumulator()
    for chunk in chunks:
        accumulator.add(adapter.part(Event("message", encode(chunk).decode())).value)
    return accumulator.result()


def delta(index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": fields, "finish_reason": None}]}


def calls(*pieces: dict[str, Any]) -> list[dict[str, Any]]:
    completion = accumulated(*(delta(tool_calls=[piece]) for piece in pieces))
    return [call.to_dict() for call in completion.choices[0].message.tool_calls]


def call(name: str, function: str, arguments: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": function, "arguments": arguments}, "id": name}


def test_a_whole_stream_is_the_completion():
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    completion = accumulated(
        head | delta(role="assistant", content=""),
        head | delta(content="Hel"),
        head | delta(content="lo"),
        head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        head | {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    )

    assert completion.raw == (
        b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
        b'"message":{"role":"assistant","content":"Hello"},"logprobs":null,"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":5,"completion_tokens":2}}'
    )
    assert completion.choices[0].message.content == "Hello"


def test_choices_are_kept_apart():
    completion = accumulated(delta(1, content="b"), delta(0, content="a"), delta(1, content="B"))

    assert [choice.message.content for choice in completion.choices] == ["a", "bB"]


@pytest.mark.parametrize("field", ["content", "refusal", "reasoning_content", "reasoning"])
def test_text_grows(field):
    message = accumulated(delta(**{field: "a"}), delta(**{field: None}), delta(**{field: "b"}))

    assert message.choices[0].message.to_dict()[field] == "ab"


def test_no_text_is_null():
    assert accumulated(delta(role="assistant")).choices[0].message.to_dict() == {
        "role": "assistant", "content": None,
    }  # fmt: skip


def test_a_tool_call_comes_in_pieces():
    pieces = [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"x"'}},
        {"index": 0, "function": {"arguments": ":1}"}},
    ]

    assert calls(*pieces) == [call("a", "f", '{"x":1}')]


def test_one_index_with_two_ids_is_two_calls():
    """Ollama gives every call the index 0; joined, neither could be called (smolagents#1569)."""
    pieces = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
        {"index": 0, "id": "b", "function": {"name": "g", "arguments": "{"}},
        {"index": 0, "function": {"arguments": "}"}},
    ]

    assert calls(*pieces) == [call("a", "f", "{}"), call("b", "g", "{}")]


def test_parallel_calls_interleave_by_index():
    pieces = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "1"}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": "2"}},
        {"index": 0, "function": {"arguments": "1"}},
        {"index": 1, "function": {"arguments": "2"}},
    ]

    assert calls(*pieces) == [call("a", "f", "11"), call("b", "g", "22")]


def named(name: str | None, arguments: str | None = "{", **beside: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **beside}


def more(arguments: str | None = "}", **beside: Any) -> dict[str, Any]:
    return {"function": {"arguments": arguments}, **beside}


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([named("f", None, index=0, id="a"), more("{}", index=0)], id="null-arguments"),
        pytest.param([named("f", index=0, id="a"), named(None, "}", index=0)], id="null-name"),
        pytest.param([named("f", id="a"), more()], id="no-index"),
        pytest.param([named("f", index=0, id="a"), named("f", "}", index=0, id="a")], id="repeats"),
        pytest.param([named("f", index=0), more(index=0, id="a")], id="id-comes-late"),
        pytest.param([named("f", index=0, id="a"), more(index=0, id="")], id="empty-id"),
        pytest.param([named("f", index=0, id="a"), more(index=None)], id="null-index"),
        pytest.param([named("f", "{}", index=0, id="a"), {"function": None}], id="null-function"),
    ],
)
def test_a_dialect_of_tool_calls_is_understood(pieces):
    assert calls(*pieces) == [call("a", "f", "{}")]


def test_a_field_of_a_call_that_is_new_goes_back_too():
    [told] = calls({"index": 0, "id": "a", "extra_content": {"thought_signature": "s"}})

    assert told["extra_content"] == {"thought_signature": "s"}


def test_the_old_function_call_is_joined():
    completion = accumulated(
        delta(function_call={"name": "f", "arguments": "{"}),
        delta(function_call={"arguments": "}"}),
    )

    assert completion.choices[0].message.function_call.to_dict() == {"name": "f", "arguments": "{}"}


def test_lists_of_a_delta_grow_and_other_fields_are_replaced():
    completion = accumulated(
        delta(reasoning_details=[1], mood="a"), delta(reasoning_details=[2], mood="b", other=None)
    )

    message = completion.choices[0].message
    assert (message.reasoning_details, message.mood) == ([1, 2], "b")


def test_log_probabilities_are_collected():
    def chunk(token: str) -> dict[str, Any]:
        return {
            "choices": [
                {"index": 0, "delta": {}, "logprobs": {"content": [token], "refusal": None}}
            ]
        }

    completion = accumulated(chunk("a"), chunk("b"))

    assert completion.choices[0].logprobs == {"content": ["a", "b"]}


def test_the_last_usage_that_is_told_wins():
    completion = accumulated(
        {"choices": [], "usage": {"prompt_tokens": 1}},
        {"choices": [], "usage": {"prompt_tokens": 2}},
        {"choices": [], "usage": None},
    )

    assert completion.usage.prompt_tokens == 2


def test_the_empty_names_of_a_first_chunk_tell_nothing():
    completion = accumulated(
        {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"x": 1}]},
        {"id": "c", "model": "m", "choices": [], "obfuscation": "xyz"},
        {"id": "", "model": "", "choices": []},
    )

    assert (completion.id, completion.model) == ("c", "m")
    assert completion.prompt_filter_results == [{"x": 1}]
    assert "obfuscation" not in completion.to_dict()


def test_what_is_no_chunk_is_passed_over():
    accumulator = OpenAIChat().accumulator()

    accumulator.add(None)

    assert accumulator.result() is None


def test_before_anything_has_come_there_is_nothing():
    assert accumulated() is None


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(
            delta(tool_calls=[{"id": 5, "index": 0, "function": {"name": 3, "arguments": {}}}]),
            id="numbers-as-names",
        ),
        pytest.param(delta(content=5), id="number-as-content"),
        pytest.param({"choices": [{"index": "1", "delta": {"content": "a"}}]}, id="text-as-index"),
    ],
)
def test_odd_shapes_never_raise(chunk):
    assert accumulated(chunk, chunk) is not None


def test_an_accumulated_message_goes_back_as_it_was_joined():
    completion = accumulated(delta(role="assistant", content="é"))

    assert (
        encode([completion.choices[0].message]) == '[{"role":"assistant","content":"é"}]'.encode()
    )
