"""Requests that fill the cache, and how long it pays to keep it filled."""

from __future__ import annotations

import pytest

from smartclient import catalog
from smartclient.prompt_cache import keep_alive, prewarm

SYSTEM = [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "And short."}]
CONTROL = {"type": "ephemeral"}


def request(**more):
    said = [{"role": "user", "content": "Hello"}]
    return {"model": "claude-opus-5", "max_tokens": 9, "messages": said, "system": SYSTEM} | more


def test_the_last_shared_block_is_marked_and_nothing_is_asked_for():
    made = prewarm(request())

    assert made["system"] == [SYSTEM[0], {**SYSTEM[1], "cache_control": CONTROL}]
    assert (made["max_tokens"], len(made["messages"])) == (0, 1)
    assert "cache_control" not in str(made["messages"])


def test_without_a_system_prompt_the_tools_are_what_is_shared():
    made = prewarm(request(system=None, tools=[{"name": "a"}, {"name": "b"}]))

    assert made["tools"] == [{"name": "a"}, {"name": "b", "cache_control": CONTROL}]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stream", True),
        ("thinking", {"type": "enabled", "budget_tokens": 1024}),
        ("tool_choice", {"type": "any"}),
        ("tool_choice", {"type": "tool", "name": "a"}),
        ("output_config", {"format": {"type": "json_schema"}}),
        ("output_format", {"type": "json_schema"}),
        ("cache_control", CONTROL),
    ],
)
def test_what_the_provider_refuses_beside_it_is_left_out(field, value):
    assert field not in prewarm(request(**{field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [("tool_choice", {"type": "auto"}), ("speed", "fast"), ("thinking", {"type": "adaptive"})],
)
def test_everything_else_stays_as_it_will_be_sent(field, value):
    assert prewarm(request(**{field: value}))[field] == value


def test_a_mark_of_the_caller_s_stays():
    system = [{**SYSTEM[0], "cache_control": {"type": "ephemeral", "ttl": "1h"}}]

    assert prewarm(request(system=system))["system"] == system


def test_the_time_to_live_may_be_chosen():
    made = prewarm(request(), ttl="1h")

    assert made["system"][1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_the_request_that_was_given_is_not_changed():
    given = request(stream=True)
    prewarm(given)

    assert given == request(stream=True)


def test_for_responses_it_is_the_developer_s_messages():
    said = [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Hello"}]

    made = prewarm({"model": "gpt-5.6", "input": said}, endpoint="openai.responses")

    mark = {"mode": "explicit"}
    part = {"type": "input_text", "text": "Be kind.", "prompt_cache_breakpoint": mark}
    assert made["input"][0] == {"role": "developer", "content": [part]}
    assert made["prompt_cache_options"] == {"prewarm": True, "mode": "explicit"}


@pytest.mark.parametrize(
    ("payload", "endpoint", "told"),
    [
        ({"model": "m", "messages": []}, "anthropic.messages", "tools or a system prompt"),
        ({"model": "m", "input": "Hi"}, "openai.responses", "a developer message"),
        ({"model": "m", "messages": []}, "openai.chat", "openai.chat has no request"),
    ],
)
def test_a_request_that_shares_nothing_is_refused(payload, endpoint, told):
    with pytest.raises(ValueError, match=told):
        prewarm(payload, endpoint=endpoint)


@pytest.mark.parametrize(
    ("model", "pings", "minutes"),
    [
        pytest.param("claude-opus-5", 11, 48, id="a-tenth"),
        pytest.param("claude-opus-5-5", 24, 100, id="a-twentieth"),
        pytest.param("claude-fable-5-1", 49, 200, id="a-fortieth"),
    ],
)
def test_a_prefix_is_kept_alive_as_long_as_reading_it_costs_less(model, pings, minutes):
    advice = keep_alive(catalog.model(model))

    assert (advice.every, advice.pings) == (240.0, pings)
    assert advice.seconds == pytest.approx(minutes * 60.0)


@pytest.mark.parametrize("facts", [None, catalog.model("gpt-5.1")])
def test_where_nothing_is_written_there_is_nothing_to_keep(facts):
    assert keep_alive(facts, endpoint="openai.chat") is None


def test_a_time_to_live_that_the_model_has_not_is_refused():
    with pytest.raises(ValueError, match="5m, 1h"):
        keep_alive(catalog.model("claude-opus-5"), ttl="1d")


def test_a_name_in_the_place_of_facts_is_refused():
    with pytest.raises(TypeError, match="facts must be ModelFacts, not str"):
        keep_alive("claude-opus-5")
