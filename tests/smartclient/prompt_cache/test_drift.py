"""The first difference of two requests, told: where, what, how much, what to do."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from smartclient import catalog
from smartclient.prompt_cache import drift
from smartclient.wire import Usage
from tests.smartclient.prompt_cache.pairs import (
    DATED,
    a_request,
    a_tool,
    changed,
    chat_request,
    drifted,
    walked,
)

SONNET = catalog.model("claude-sonnet-4-5")
DATE = DATED.index("01Z")


def schema(request, tool=3):
    one = request["tools"][tool]
    return one.get("input_schema") or one["function"]["parameters"]


def reversed_keys(mapping):
    pairs = list(mapping.items())[::-1]
    mapping.clear()
    mapping.update(pairs)


def system(request):
    """Where the text that leads a request is: a mapping and a key."""
    if "system" in request:
        return request, "system"
    return request["messages"][0], "content"


def replace(old, new):
    def change(request):
        place, key = system(request)
        place[key] = place[key].replace(old, new, 1)

    return change


def place(request, name):
    leads = {"system": "system"} if "system" in request else {"system": "messages[0].content"}
    inner = "input_schema" if "system" in request else "function.parameters"
    return name.format(**leads, schema=f"tools[3].{inner}")


def last(request):
    return request["messages"][-1]


CASES = {
    "tool-moved": (lambda r: r["tools"].insert(1, r["tools"].pop()), "reorder", "tools[1]"),
    "tool-added": (lambda r: r["tools"].append(a_tool("new")), "added", "tools[4]"),
    "tool-added-first": (lambda r: r["tools"].insert(0, a_tool("new")), "added", "tools[0]"),
    "tool-removed": (lambda r: r["tools"].pop(1), "removed", "tools[1]"),
    "last-tool-removed": (lambda r: r["tools"].pop(), "removed", "tools[3]"),
    "no-tools": (lambda r: r["tools"].clear(), "removed", "tools[0]"),
    "schema-key-added": (
        lambda r: schema(r)["properties"].update(town={}),
        "added",
        "{schema}.properties.town",
    ),
    "schema-key-removed": (lambda r: schema(r).pop("properties"), "removed", "{schema}.properties"),
    "schema-key-order": (lambda r: reversed_keys(schema(r)), "key_order", "{schema}"),
    "schema-type": (
        lambda r: schema(r)["properties"]["city"].update(type=["string"]),
        "type_change",
        "{schema}.properties.city.type",
    ),
    "schema-edit": (
        lambda r: schema(r)["properties"]["city"].update(type="strong"),
        "edit",
        "{schema}.properties.city.type@3",
    ),
    "system-date": (replace("01Z", "02Z"), "edit", f"{{system}}@{DATE + 1}"),
    "system-space": (replace("It is", "It  is"), "whitespace", f"{{system}}@{DATED.index('is 2')}"),
    "system-cut": (replace(DATED[3000:], ""), "truncation", "{system}@3000"),
    "role": (lambda r: r["messages"][-2].update(role="user"), "edit", "messages[{n}].role@0"),
}


@pytest.mark.parametrize("make", [a_request, chat_request], ids=["anthropic", "openai"])
@pytest.mark.parametrize(("change", "kind", "path"), CASES.values(), ids=CASES)
def test_the_first_difference_is_named(change, kind, path, make):
    request = make()

    found = drifted(change, request)

    wanted = place(request, path.replace("{n}", str(len(request["messages"]) - 2)))
    assert (found.kind, found.path) == (kind, wanted)
    assert found.path in str(found) or kind == "reorder"


@pytest.mark.parametrize(
    ("fields", "name", "tier"),
    [
        pytest.param({"model": "claude-opus-4-5"}, "model", "tools", id="model"),
        pytest.param({"speed": "fast"}, "speed", "system", id="speed"),
        pytest.param({"tool_choice": {"type": "any"}}, "tool_choice", "messages", id="tool-choice"),
        pytest.param(
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            "thinking",
            "messages",
            id="thinking",
        ),
    ],
)
def test_a_changed_parameter_has_a_name_and_a_tier(fields, name, tier):
    found = drifted(lambda r: r.update(fields))

    assert (found.kind, found.parameter, found.tier) == ("parameter", name, tier)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"reasoning_effort": "high"}, id="reasoning_effort"),
        pytest.param({"service_tier": "flex"}, id="service_tier"),
        pytest.param({"verbosity": "low"}, id="verbosity"),
        pytest.param({"parallel_tool_calls": False}, id="parallel_tool_calls"),
        pytest.param({"prompt_cache_key": "b"}, id="prompt_cache_key"),
    ],
)
def test_what_openai_counts_to_the_prefix_is_a_parameter(fields):
    found = drifted(lambda r: r.update(fields), chat_request(prompt_cache_key="a"))

    assert (found.kind, found.parameters) == ("parameter", tuple(fields))


def test_other_beta_headers_are_a_parameter():
    before = walked(a_request(), headers={"anthropic-beta": "one"})
    after = walked(a_request(), headers={"anthropic-beta": "one,two"})

    found = drift(before, after)

    assert (found.parameter, found.advice) == (
        "anthropic-beta",
        "send the same beta headers in every call",
    )


def test_a_block_before_the_tier_of_a_parameter_is_the_first_difference():
    found = drifted(lambda r: r.update(system="Other.", tool_choice={"type": "any"}))

    assert (found.kind, found.path) == ("edit", "system@0")


def test_a_parameter_of_an_earlier_tier_is_the_first_difference():
    found = drifted(lambda r: r.update(system="Other.", model="claude-opus-4-5"))

    assert (found.kind, found.block) == ("parameter", 0)


def grown(request):
    request["messages"] += [
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Good."},
    ]


def marked(request):
    request["system"] = [
        {"type": "text", "text": DATED, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    ]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda r: None, id="same"),
        pytest.param(grown, id="grown"),
        pytest.param(marked, id="marks-and-the-long-form-of-a-text"),
        pytest.param(lambda r: r["messages"].pop(), id="forked-earlier"),
        pytest.param(lambda r: r.update(max_tokens=10, temperature=0.5), id="sampling"),
        pytest.param(lambda r: r["messages"].clear(), id="only-the-beginning"),
    ],
)
def test_without_a_byte_that_differs_there_is_no_drift(change):
    assert drifted(change) is None


def test_a_prompt_without_blocks_has_no_drift():
    empty = walked({"max_tokens": 1, "messages": [], "model": "m"})

    assert drift(empty, walked(a_request(model="m"))) is None


def test_history_that_the_provider_keeps_is_not_compared():
    """Its bytes are not in the request: what seems to differ may well have grown."""
    first = {"model": "gpt-5.6-sol", "input": "One."}
    second = {"model": "gpt-5.6-sol", "input": "Two.", "previous_response_id": "resp_1"}

    assert drift(walked(first), walked(second)) is None


def test_tools_are_compared_whoever_keeps_the_history():
    first = {"model": "gpt-5.6-sol", "input": "One.", "tools": [a_tool("a")]}
    second = {**first, "previous_response_id": "resp_1", "tools": [a_tool("b")]}

    assert drift(walked(first), walked(second)).path == "tools[0].name@0"


def test_the_sentence_has_place_tokens_dollars_and_advice():
    found = drifted(lambda r: r["tools"].insert(1, r["tools"].pop()), facts=SONNET, ttl="5m")

    told = str(found)

    assert told.startswith("tools[3] moved to tools[1]; about 1,9")
    assert told.endswith("tokens are written anew, $0.0068 per call; keep the order of tools fixed")


def test_a_model_that_costs_nothing_loses_nothing():
    free = catalog.override({"free": {"prices": {"input": 0, "output": 0, "cache_read": 0}}})

    found = drifted(lambda r: r["tools"].pop(), facts=free.model("free"))

    assert ", $0 per call" in str(found)


def test_one_token_is_told_as_one():
    request = a_request(tools=[], system="ab", messages=[])

    found = drifted(lambda r: r.update(system="cd"), request, tokens_per_byte=1 / 27)

    assert "about 1 token is computed anew" in str(found)


def test_what_moved_is_named():
    found = drifted(lambda r: r["tools"].insert(1, r["tools"].pop()))

    assert [(one.name, one.before, one.after) for one in found.moved] == [
        ("search", "tools[3]", "tools[1]")
    ]


def test_lost_tokens_and_dollars_follow_the_usage():
    """3,000 of 4,000 tokens stood in what both could share: written at $3.75, read at $0.30."""
    request = a_request(tools=[], system="x" * 2961)
    usage = Usage(uncached=1000, cache_read=0, cache_write={"5m": 3000}, output=7)

    found = drifted(lambda r: r.update(system="y" * 2961), request, usage=usage, facts=SONNET)

    assert (found.tokens_lost, found.is_estimate) == (4000, False)
    assert (
        found.dollars_lost
        == (Decimal(3000) * (Decimal("3.75") - Decimal("0.3")) + Decimal(1000) * Decimal("2.7"))
        / 1_000_000
    )


@pytest.mark.parametrize(
    ("mark", "is_written"),
    [
        pytest.param({"cache_control": {"type": "ephemeral"}}, True, id="whole-request"),
        pytest.param({}, False, id="none"),
    ],
)
def test_the_callers_own_mark_says_whether_it_is_written(mark, is_written):
    found = drifted(replace("01Z", "02Z"), a_request(**mark), facts=SONNET)

    assert found.is_written is is_written


def test_the_callers_first_mark_behind_the_difference_gives_the_time_to_live():
    text = {"type": "text", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    request = a_request(system=[{**text, "text": DATED}])

    found = drifted(lambda r: r["system"][0].update(text="x"), request, facts=SONNET)

    assert found.dollars_lost == found.tokens_lost * Decimal("5.7") / 1_000_000


def test_tokens_that_were_read_are_not_lost():
    usage = Usage(uncached=10, cache_read=1990, output=1)

    found = drifted(replace("01Z", "02Z"), usage=usage, facts=SONNET)

    assert found.tokens_lost == 10


def test_only_what_the_cache_held_is_lost():
    found = drifted(lambda r: last(r).update(content="Other."), entry=4)

    assert (found.bytes_lost, found.tokens_lost) == (0, 0)
    assert "nothing that was cached is lost" in str(found)


def test_an_entry_that_is_no_block_is_refused():
    with pytest.raises(ValueError, match="entry must be one of the 8 blocks"):
        drifted(grown, entry=8)


@pytest.mark.parametrize("ratio", [0, -1, float("nan"), float("inf")])
def test_a_ratio_that_cannot_be_is_refused(ratio):
    with pytest.raises(ValueError, match="tokens_per_byte must be above 0"):
        drifted(grown, tokens_per_byte=ratio)


def test_no_text_of_a_prompt_is_kept_or_shown():
    found = drifted(replace("Answer briefly", "Answer secretly"))

    assert "secret" not in f"{found} {found!r} {json.dumps(found.to_dict())}"


def test_excerpts_are_short_and_asked_for():
    found = drifted(replace("01Z", "02Z"), excerpts=True)

    assert found.excerpts == (
        "29T12:00:01Z now. Be kind. Be kind. Be k",
        "29T12:00:02Z now. Be kind. Be kind. Be k",
    )


def test_a_key_of_a_path_stays_on_one_line():
    found = drifted(lambda r: schema(r).update({"a\nb" + "c" * 500: 1}))

    assert found.path == "tools[3].input_schema.a\\nb" + "c" * 55 + "…"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(["bare"], id="text-in-a-list"),
        pytest.param([None, 3], id="no-objects"),
    ],
)
def test_odd_content_is_compared_all_the_same(content):
    before = a_request()
    after = changed(before, lambda r: last(r).update(content=content))
    walks = walked(before), walked(after)

    assert drift(*walks).path.startswith("messages[2].content")


@pytest.mark.parametrize("given", [None, a_request()])
def test_a_request_that_was_not_walked_is_refused(given):
    with pytest.raises(TypeError, match=r"after must be a Walk, .*prompt_cache\.walk"):
        drift(walked(a_request()), given)
