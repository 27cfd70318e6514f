"""The client's walk of a prompt and the scripted server's, two readings of the same rules."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from server_reference.scripted.providers.anthropic_prompt import LOOKBACK, look_back, read_anthropic
from server_reference.scripted.providers.cache_rules import CacheRules
from server_reference.scripted.providers.openai_prompt import OpenAIPrompt, read_openai
from server_reference.scripted.providers.prompt_walk import Mark as ServerMark
from server_reference.scripted.providers.prompt_walk import Prompt
from server_reference.scripted.request import Received
from smartclient.prompt_cache.blocks import Mark
from smartclient.prompt_cache.marks import check_own_marks, legal, marked
from smartclient.prompt_cache.walk import fingerprints, walk
from smartclient.wire.encode import encode
from tests.smartclient.prompt_cache.payloads import agent_turn, marks_in, messages, sane, text

ANTHROPIC = "anthropic.messages"
PATHS = {"openai.chat": "/v1/chat/completions", "openai.responses": "/v1/responses"}
openai_payloads = st.sampled_from(sorted(PATHS)).flatmap(
    lambda endpoint: st.tuples(st.just(endpoint), sane(endpoint))
)


def received(path: str, payload: Any) -> Received:
    return Received("POST", path, body=encode(payload))


def served(payload: Any) -> Prompt | None:
    """What Anthropic's server makes of it; `None` for a 400."""
    found = read_anthropic(received("/v1/messages", payload), "me", CacheRules())
    return found if isinstance(found, Prompt) else None


def served_openai(endpoint: str, payload: Any) -> OpenAIPrompt | None:
    found = read_openai(received(PATHS[endpoint], payload), "me", CacheRules())
    return found if isinstance(found, OpenAIPrompt) else None


def unmarked(value: Any) -> Any:
    names = ("cache_control", "prompt_cache_breakpoint")
    if isinstance(value, dict):
        return {name: unmarked(one) for name, one in value.items() if name not in names}
    return [unmarked(one) for one in value] if isinstance(value, list) else value


def edited(data: st.DataObject, payload: Any, name: str) -> Any:
    """A copy in which one turn is another."""
    other = copy.deepcopy(payload)
    turns = other[name]
    if isinstance(turns, list) and turns:
        number = data.draw(st.integers(0, len(turns) - 1))
        turns[number] = {"role": "user", "content": data.draw(st.sampled_from("xy"))}
    return other


def keys(found: Any) -> list[Any]:
    """What a prefix of ours is known by: its blocks, and all that breaks it beside them."""
    broken = fingerprints(found)
    return [(block.prefix, broken[block.tier]) for block in found.blocks]


def equal(one: list[Any], other: list[Any]) -> list[bool]:
    return [a == b for a, b in zip(one, other, strict=False)]


@given(sane(ANTHROPIC), st.data())
def test_the_same_prefixes_are_the_same_to_both(payload, data):
    payload = unmarked(payload)
    other = edited(data, payload, "messages")
    ours = [walk(one, endpoint=ANTHROPIC) for one in (payload, other)]
    theirs = [[block.key for block in served(one).blocks] for one in (payload, other)]

    assert [len(found.blocks) for found in ours] == [len(found) for found in theirs]
    assert equal(*map(keys, ours)) == equal(*theirs)


@given(sane(ANTHROPIC), sane(ANTHROPIC))
def test_tools_system_and_settings_are_in_the_same_prefixes_to_both(payload, other):
    theirs = [[block.key for block in served(unmarked(one)).blocks] for one in (payload, other)]
    ours = [walk(one, endpoint=ANTHROPIC) for one in (payload, other)]

    assert equal(*map(keys, ours)) == equal(*theirs)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=8, max_size=30))
def test_positions_are_counted_alike(turns):
    payload: dict[str, Any] = messages("go")
    for number, (calls, texts) in enumerate(turns):
        payload["messages"] += agent_turn(f"t{number}", calls)
        payload["messages"].append({"role": "user", "content": [text("x")] * texts})
    blocks = walk(payload, endpoint=ANTHROPIC).blocks
    last = len(blocks) - 1

    reached = set(look_back(served(payload), ServerMark(last, "5m")))

    near = {
        i for i, block in enumerate(blocks) if blocks[last].position - block.position < LOOKBACK
    }
    assert reached == near


@given(sane(ANTHROPIC))
def test_the_callers_marks_are_refused_by_both_or_by_neither(payload):
    assume(b'" "' not in encode(payload))  # of it we do not know

    assert (check_own_marks(walk(payload, endpoint=ANTHROPIC)) is None) == (
        served(payload) is not None
    )


@given(sane(ANTHROPIC), st.data())
def test_no_mark_of_ours_is_refused(payload, data):
    assume(served(payload) is not None)
    found = walk(payload, endpoint=ANTHROPIC)
    places = st.integers(0, max(len(found.blocks) - 1, 0))
    marks = data.draw(st.lists(st.builds(Mark, places, st.sampled_from(["5m", "1h"])), max_size=8))
    left = legal(found, marks)

    prompt = served(marked(payload, found, left))

    assert prompt is not None
    own = served(payload)
    assert {mark.block for mark in prompt.marks} == {
        *(mark.block for mark in left),
        *(mark.block for mark in own.marks),
    }
    assert [block.key for block in prompt.blocks] == [block.key for block in own.blocks]


def test_a_blank_text_is_left_to_the_provider():
    """Only of an empty one it is documented that it cannot be marked."""
    payload = messages([text(" ", "5m")], cache_control={"type": "ephemeral", "ttl": "1h"})

    assert check_own_marks(walk(payload, endpoint=ANTHROPIC)) is None


@given(sane(ANTHROPIC), st.data())
def test_what_we_call_unmarkable_is_refused_there(payload, data):
    payload = unmarked(payload)
    found = walk(payload, endpoint=ANTHROPIC)
    # Of a search tool it is only unclear what would be cached.
    barred = [
        index
        for index, block in enumerate(found.blocks)
        if not block.is_markable and block.path[0] != "tools" and isinstance(block.path[-1], int)
    ]
    assume(barred)
    index = data.draw(st.sampled_from(barred))
    assume(json.loads(found.blocks[index].data).get("text") != " ")

    assert served(marked(payload, found, [Mark(index, "5m")])) is None


@given(openai_payloads, st.data())
def test_no_breakpoint_of_ours_is_refused(drawn, data):
    endpoint, payload = drawn
    payload = {**unmarked(payload), "prompt_cache_options": {"mode": "explicit"}}
    found = walk(payload, endpoint=endpoint)
    places = st.integers(0, max(len(found.blocks) - 1, 0))
    marks = data.draw(st.lists(st.builds(Mark, places, st.just("30m")), max_size=8))
    left = legal(found, marks)

    read = served_openai(endpoint, marked(payload, found, left))

    assert read is not None
    assert len(read.prompt.marks) == len(left)
    before = served_openai(endpoint, payload)
    assert [block.key for block in read.prompt.blocks] == [
        block.key for block in before.prompt.blocks
    ]


@pytest.mark.parametrize("endpoint", sorted(PATHS))
@given(data=st.data())
def test_a_breakpoint_ends_the_same_prefixes_to_both(endpoint, data):
    payload = unmarked(data.draw(sane(endpoint)))
    name = "messages" if endpoint == "openai.chat" else "input"
    other = edited(data, payload, name)
    ours, theirs = [], []
    for one in (payload, other):
        one = {**one, "prompt_cache_options": {"mode": "explicit"}}
        found = walk(one, endpoint=endpoint)
        numbers = [i for i, block in enumerate(found.blocks) if block.is_markable]
        ours.append([keys(found)[i] for i in numbers])
        theirs.append([_key(endpoint, marked(one, found, [Mark(i, "30m")])) for i in numbers])

    assert equal(*ours) == equal(*theirs)


def _key(endpoint: str, payload: Any) -> bytes:
    """What the server knows the prefix by that ends at the only mark."""
    assert marks_in(payload) == 1
    prompt = served_openai(endpoint, payload).prompt
    (mark,) = prompt.marks
    return prompt.blocks[mark.block].key
