from __future__ import annotations

import pytest

from server_reference.scripted.request import Received
from tests.server_reference.scripted.received import PATHS, a_request

CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "t", "content": "sunny"}],
}


def said(text, role="user"):
    return {"role": role, "content": text}


@pytest.mark.parametrize("api", PATHS)
def test_the_path_tells_the_api(api):
    assert a_request(api).api == api


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/messages"), ("POST", "/v1/messages/count_tokens")]
)
def test_other_endpoints_have_no_format(method, path):
    assert Received(method, path).api is None


def test_a_gateways_prefix_and_a_query_do_not_hide_the_api():
    received = Received("POST", "/proxy/openai/v1/chat/completions?beta=true")

    assert (received.api, received.query) == ("openai.chat", "beta=true")


@pytest.mark.parametrize("api", PATHS)
def test_the_last_user_text_is_read_in_every_format(api):
    assert a_request(api, user="What time is it?").last_user_text == "What time is it?"


def test_a_turn_that_only_brings_a_result_leaves_the_text_of_the_one_before():
    received = a_request(messages=[said("Weather?"), CALL, RESULT])

    assert received.last_user_text == "Weather?"


def test_a_tool_result_is_seen_in_the_newest_turn():
    assert a_request(messages=[said("Weather?"), CALL, RESULT]).has_tool_result


def test_a_tool_result_of_an_earlier_turn_does_not_count():
    turns = [said("Weather?"), CALL, RESULT, said("Sunny.", "assistant"), said("Thanks")]

    assert not a_request(messages=turns).has_tool_result


def test_chat_and_responses_have_tool_results_of_their_own():
    chat = a_request("openai.chat", messages=[said("x"), {"role": "tool", "content": "sunny"}])
    item = {"type": "function_call_output", "call_id": "c", "output": "sunny"}
    responses = a_request("openai.responses", input=[said("x"), item])

    assert (chat.has_tool_result, responses.has_tool_result) == (True, True)


@pytest.mark.parametrize(
    ("turns", "number"),
    [
        pytest.param([said("a")], 1, id="first"),
        pytest.param([said("a"), said("b", "assistant"), said("c")], 2, id="second"),
        pytest.param([said("a"), said("b", "assistant")], 1, id="prefill"),
        pytest.param([said("a"), CALL, RESULT], 2, id="tool-loop"),
    ],
)
def test_turns_are_counted_by_what_the_assistant_said(turns, number):
    assert a_request(messages=turns).turn == number


def test_items_of_one_assistant_turn_count_once():
    items = [said("a"), {"type": "reasoning"}, {"type": "function_call"}, said("b")]

    assert a_request("openai.responses", input=items).turn == 2


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        ("anthropic.messages", {"system": "Be brief."}),
        ("anthropic.messages", {"system": [{"type": "text", "text": "Be brief."}]}),
        ("openai.chat", {"messages": [said("Be brief.", "developer"), said("x")]}),
        ("openai.responses", {"instructions": "Be brief."}),
    ],
)
def test_the_system_prompt_is_found_wherever_a_format_has_it(api, fields):
    assert a_request(api, **fields).system == "Be brief."


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"x"', b"\xff", b'{"messages": 5, "model": 1}', b"[" * 5000]
)
def test_a_body_that_means_nothing_is_no_error(body):
    received = Received("POST", "/v1/messages", body=body)

    assert (received.model, received.system, received.last_user_text) == (None, None, None)
    assert (received.turn, received.has_tool_result, received.is_stream) == (1, False, False)


@pytest.mark.parametrize("kind", [{}, [], 1, True])
@pytest.mark.parametrize("api", PATHS)
def test_a_type_that_is_no_text_is_the_type_of_nothing(api, kind):
    turns = [said("hi") | {"type": kind}, {"type": kind, "content": [{"type": kind}]}]

    received = a_request(api, messages=turns, input=turns)

    assert (received.turn, received.has_tool_result) == (1, False)
    assert received.last_user_text == "hi"


def test_the_same_call_has_the_same_key():
    first, again, other = a_request(number=1), a_request(number=2), a_request(user="else")

    assert first.call_key == again.call_key != other.call_key
