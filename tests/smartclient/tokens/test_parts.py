"""A request taken apart, in the order in which a provider reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient.tokens.parts import Part, parts, pieces_of

IMAGE = {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}}


def told(endpoint, body):
    return [(part.kind, part.path, part.text) for part in parts(endpoint, body)]


def test_tools_come_before_the_system_prompt_and_messages():
    body = {
        "messages": [{"role": "user", "content": "Hi"}],
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "look"}],
    }

    assert told("anthropic.messages", body) == [
        ("tool", "tools[0]", '{"name":"look"}'),
        ("system", "system[0]", "Be brief."),
        ("message", "messages[0].content", "Hi"),
    ]


def test_instructions_among_messages_are_the_systems():
    body = {"messages": [{"role": "developer", "content": "Be brief."}]}

    assert told("openai.chat", body) == [("system", "messages[0].content", "Be brief.")]


def test_calls_and_results_of_a_chat_are_parts():
    calls = [{"id": "c", "function": {"name": "look"}}]
    body = {
        "messages": [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c", "content": "found"},
        ]
    }

    assert [path for _, path, _ in told("openai.chat", body)] == [
        "messages[0].tool_calls",
        "messages[1].content",
    ]


def test_items_of_responses_are_parts():
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "found"}
    body = {"instructions": "Be brief.", "input": [call, result, "Hi"]}

    assert [(path, text[:9]) for _, path, text in told("openai.responses", body)] == [
        ("instructions", "Be brief."),
        ("input[0]", '{"type":"'),
        ("input[1].output", "found"),
        ("input[2]", "Hi"),
    ]


def test_text_alone_is_a_part():
    assert told("openai.responses", {"input": "Hi"}) == [("message", "input", "Hi")]


@pytest.mark.parametrize("mark", ["cache_control", "prompt_cache_breakpoint"])
def test_cache_marks_do_not_make_another_text(mark):
    """They move from turn to turn."""
    with_mark, without = (
        list(parts("anthropic.messages", {"tools": [tool]}))
        for tool in ({"name": "look", mark: {"type": "ephemeral"}}, {"name": "look"})
    )

    assert with_mark == without


def test_what_is_no_text_keeps_its_value():
    body = {"messages": [{"role": "user", "content": [IMAGE]}]}

    [part] = parts("anthropic.messages", body)

    assert part.value == IMAGE


def test_a_result_of_text_is_text():
    block = {"type": "tool_result", "tool_use_id": "c", "content": "found"}
    body = {"messages": [{"role": "user", "content": [block]}]}

    assert list(parts("anthropic.messages", body)) == [
        Part("message", "messages[0].content[0]", "found")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Answer the question.\nBe kind to all.", 1, id="short-joins-the-next"),
        pytest.param("Answer the question well.\nAlways be very kind.", 2, id="lines"),
        pytest.param("Answer the question well. Always be very kind.", 2, id="sentences"),
        pytest.param("Hello", 0, id="too-short"),
        pytest.param("A sentence of its own. " * 9, 5, id="no-more-than-asked"),
    ],
)
def test_pieces_are_lines_and_sentences(text, expected):
    assert len(list(pieces_of(text, 5))) == expected


@given(st.text(alphabet="ab .\n", max_size=200))
def test_pieces_stand_in_the_text_in_order(text):
    place = 0
    for piece in pieces_of(text, 1000):
        place = text.index(piece, place) + len(piece)


@given(before=st.text(alphabet="xy .\n", max_size=100), same=st.text(alphabet="ab", min_size=20))
def test_pieces_are_found_again_behind_other_text(before, same):
    wanted = f"A line that is long enough for all.\n{same} and on.\n{same} again."

    assert list(pieces_of(wanted, 99))[1:] == list(pieces_of(f"{before}\n{wanted}", 999))[-2:]
