"""Prompts that change where they should not: found, told, priced and routed around."""

from __future__ import annotations

import re

import pytest

from server_reference.scripted.providers import CacheRules
from tests.end_to_end.cache_proof import says, share, text, tokens, told, ways

pytestmark = pytest.mark.sdk

SYSTEM = "rule by rule " * 600
HEAD = 1950
MORE = "More rules. " * 200
TURN = [says("user", "Hello there")]


def stamped(number):
    """A system prompt with the time in it."""
    return f"Now it is 2026-11-29T10:{number:02}:17Z. {MORE}"


def found(report):
    """Path, tokens and dollars of a drift, as its sentence has them."""
    sentence = re.search(r"([\d,]+) tokens are .* anew, \$([\d.]+) per call", report.cache.drift)
    count, dollars = sentence.groups()
    return report.cache.drift_path, int(count.replace(",", "")), float(dollars)


# The time in the system prompt.


def in_one_text(one, calls=6):
    for number in range(calls):
        one.say(SYSTEM + stamped(number), TURN)
        one.clock.advance(20)
    return one.reports


@ways("messages", "chat", "responses")
def test_a_time_in_a_text_is_found_with_path_and_offset(proof, api, way):
    reports = in_one_text(proof(api, way=way), 3)

    path = {"messages": "system", "chat": "messages[0].content", "responses": "input[0].content"}
    offset = len(SYSTEM + "Now it is 2026-11-29T10:0")
    assert {one.cache.drift_path for one in reports[1:]} == {f"{path[api]}@{offset}"}
    assert all("a date or time" in one.cache.drift for one in reports[1:])


@ways("messages", "chat", "responses")
def test_what_it_costs_is_told_to_a_hundredth(proof, api, way):
    reports = in_one_text(proof(api, way=way), 2)

    whole, read = reports[1].usage.input_tokens, 200 if api == "messages" else 400
    _, count, dollars = found(reports[1])
    assert count == pytest.approx(whole, rel=0.01)
    assert dollars == pytest.approx(whole * (5000 - read) * 1e-9, rel=0.05)  # told in two digits


@ways("messages", "chat", "responses")
def test_savings_that_are_losses_are_shown(proof, api, way):
    reports = in_one_text(proof(api, way=way), 2)

    written = sum(told(reports[1]).written.values())
    assert round(reports[1].cache.savings * 1e9) == -written * 1000


def test_a_text_that_changes_within_is_not_written_for_ever(proof):
    """No mark fits inside of a text: so it is left alone, and goes on being told."""
    reports = in_one_text(proof())

    assert [bool(told(one).written) for one in reports] == [True, True, False, False, False, False]
    assert all(one.cache.drift_path for one in reports[1:])


@ways("messages")
@pytest.mark.parametrize("hints", ["cautious", "full"])
def test_with_the_next_call_a_mark_stands_before_what_changes(proof, api, way, hints):
    one = proof(api, way=way, hints=hints)
    for number in range(4):
        one.say([text(SYSTEM), text(stamped(number))], TURN)
        one.clock.advance(20)

    assert "system[0]" in one.reports[1].cache.placed
    assert [told(each).read for each in one.reports[2:]] == [HEAD, HEAD]
    assert one.reports[1].cache.drift_path.startswith("system[1].text@")


def test_the_part_that_changes_is_written_no_more(proof):
    one = proof()
    for number in range(5):
        one.say([text(SYSTEM), text(stamped(number))], TURN)
        one.clock.advance(20)

    rest = tokens(stamped(0), "Hello there")
    assert [told(each) for each in one.reports[2:]] == [(HEAD, {}, rest)] * 3


def test_what_is_read_before_the_change_pays_for_all_that_was_lost(proof):
    one = proof()
    for number in range(5):
        one.say([text(SYSTEM), text(stamped(number))], TURN)
        one.clock.advance(20)

    saved = [round(each.cache.savings * 1e9) for each in one.reports]
    assert saved[2:] == [HEAD * 3800] * 3
    assert sum(saved) > 0


@ways("chat", "responses")
def test_a_time_in_the_prompt_of_an_automatic_cache_is_found_too(proof, api, way):
    reports = in_one_text(proof(api, way=way, model="gpt-5.1"), 3)

    assert [told(each).read for each in reports] == [0, HEAD // 128 * 128, HEAD // 128 * 128]
    assert tokens(SYSTEM) == HEAD
    assert [each.cache.miss for each in reports[1:]] == ["prefix_drift"] * 2
    assert all(each.cache.drift_path.endswith(f"@{len(SYSTEM) + 25}") for each in reports[1:])


@ways("messages", "chat", "responses")
@pytest.mark.parametrize("question", ["Hello", "{} is the question"], ids=["same", "other"])
def test_a_time_at_the_very_beginning_is_found_too(proof, api, way, question):
    one = proof(api, way=way)
    for number in range(4):
        system = f"Now it is 2026-11-29T10:{number:02}:17Z. {SYSTEM}"
        one.say(system, [says("user", question.format(number))])
        one.clock.advance(20)

    assert [each.cache.drift_path.rpartition("@")[2] for each in one.reports[1:]] == ["25"] * 3
    assert one.reports[1].cache.miss == "prefix_drift"


def test_another_system_prompt_is_no_change_of_the_first(proof):
    one = proof()
    for number in range(4):
        one.say(f"{number} as a baker. " * 300, [says("user", "Hello")])
        one.say(f"{number} as a sailor. " * 300, [says("user", "Ahoy")])

    assert [each.cache.miss for each in one.reports[:2]] == ["cold_first"] * 2
    assert one.reports[1].cache.drift is None


# Tools.


def tool(number, **more):
    properties = {"city": {"type": "string"}, "days": {"type": "integer"}}
    return {
        "name": f"tool_{number}",
        "description": f"does {number} " * 200,
        "input_schema": {"type": "object", "properties": properties},
        **more,
    }


def moved(tools):
    return [*tools[:2], tools[3], tools[2], *tools[4:]]


def other_keys(tools):
    days_first = {"days": {"type": "integer"}, "city": {"type": "string"}}
    schema = {"type": "object", "properties": days_first}
    return [*tools[:3], {**tools[3], "input_schema": schema}, *tools[4:]]


def edited(tools):
    description = tools[3]["description"] + "well"
    return [*tools[:3], {**tools[3], "description": description}, *tools[4:]]


def one_more(tools):
    return [*tools[:3], tool(9), *tools[3:]]


def one_less(tools):
    return [*tools[:3], *tools[4:]]


CHANGES = pytest.mark.parametrize(
    ("change", "path", "kind", "lost_from"),
    [
        pytest.param(moved, "tools[2]", "tools[3] moved to tools[2]", 2, id="order"),
        pytest.param(
            other_keys,
            "tools[3].input_schema.properties",
            "the keys of tools[3].input_schema.properties are in another order",
            3,
            id="key-order",
        ),
        pytest.param(edited, "tools[3].description@1400", "changed", 3, id="edit"),
        pytest.param(one_more, "tools[3]", "tools[3] came in", 3, id="added"),
        pytest.param(one_less, "tools[3]", "tools[3] is gone", 3, id="removed"),
    ],
)


def with_changed_tools(one, change):
    tools = [tool(number) for number in range(5)]
    for given in (tools, tools, change(tools), change(tools)):
        one.ask(tools=given, messages=TURN)
        one.clock.advance(20)
    return one.reports


@ways("messages")
@CHANGES
def test_each_change_of_tools_is_told_by_its_own_name(
    proof, api, way, change, path, kind, lost_from
):
    reports = with_changed_tools(proof(api, way=way), change)

    miss = reports[2].cache
    assert (miss.miss, miss.drift_path) == ("prefix_drift", path)
    assert kind in miss.drift


@CHANGES
def test_what_a_change_of_tools_loses_begins_with_it(proof, change, path, kind, lost_from):
    reports = with_changed_tools(proof(), change)

    whole = min(one.usage.input_tokens for one in reports[1:3])  # what is new was never there
    lost = whole - lost_from * reports[0].usage.input_tokens / 5
    _, count, dollars = found(reports[2])
    assert count == pytest.approx(lost, rel=0.03)
    assert dollars == pytest.approx(lost * 4800e-9, rel=0.05)


@CHANGES
def test_after_a_change_the_new_tools_are_read(proof, change, path, kind, lost_from):
    reports = with_changed_tools(proof(), change)

    assert told(reports[3]).read == reports[2].usage.input_tokens
    assert reports[3].cache.miss is None


# A provider that loses what it holds.


@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.long)])
@ways("messages", "chat")
def test_what_the_provider_lost_is_never_called_a_change(proof, api, way, seed):
    """anthropic-sdk-python#1451: up to 60% of calls in a row miss by themselves."""
    rules = CacheRules(eviction_rate=0.4, seed=seed)
    reports = proof(api, way=way, rules=rules).chat(12, SYSTEM)

    lost = [one for one in reports[1:] if not told(one).read]
    assert len(lost) > 1
    assert {one.cache.miss for one in lost} == {"provider_evicted"}
    assert (
        {one.cache.drift for one in reports} == {one.cache.drift_path for one in reports} == {None}
    )


def test_a_provider_that_loses_everything_is_written_to_less(proof):
    reports = proof(rules=CacheRules(eviction_rate=1.0)).chat(12, SYSTEM)

    written = [sum(told(one).written.values()) for one in reports]
    assert sum(written[6:]) < sum(written[:6]) / 2


def test_what_is_lost_by_chance_costs_less_than_without_a_cache(proof):
    reports = proof(rules=CacheRules(eviction_rate=0.4, seed=3)).chat(20, SYSTEM)

    assert sum(one.cache.savings for one in reports) > 0
    assert share(reports) > 0.4
