"""What the providers say about a miss, and where it contradicts what was sent."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from smartclient.prompt_cache import provider_diagnosis
from smartclient.prompt_cache.diagnoses import contradiction, diagnosis_reason
from smartclient.prompt_cache.difference import DriftKind
from smartclient.prompt_cache.patterns import PATTERNS
from tests.layers import ROOT
from tests.smartclient.prompt_cache.pairs import chat_request, drifted


def anthropic(reason):
    return {"diagnostics": {"cache_miss_reason": reason}}


def openai(kind, **more):
    return {"prompt_cache_diagnostics": {"type": kind, **more}}


CHANGED = {"type": "tools_changed", "cache_missed_input_tokens": 812}


@pytest.mark.parametrize(
    "told",
    [
        pytest.param({"diagnostics": None}, id="no-difference"),
        pytest.param(anthropic(None), id="still-comparing"),
        pytest.param(anthropic(CHANGED), id="changed"),
        pytest.param(openai("cache_miss", reason="tools_changed"), id="openai"),
    ],
)
@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda told: {"id": "msg_1", **told}, id="reply"),
        pytest.param(lambda t: {"type": "message_start", "message": t}, id="message-start"),
        pytest.param(lambda t: {"type": "response.completed", "response": t}, id="completed"),
    ],
)
def test_a_diagnosis_is_found_and_kept_as_it_came(told, wrap):
    assert provider_diagnosis(wrap(told)) == told


@pytest.mark.parametrize("reply", [None, [], {}, {"message": None}, {"message": "x"}, "text"])
def test_without_a_diagnosis_there_is_none(reply):
    assert provider_diagnosis(reply) is None


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (None, None),
        ({"diagnostics": None}, "no_difference"),
        (anthropic(None), None),
        (anthropic(CHANGED), "tools_changed"),
        ({"diagnostics": CHANGED}, "tools_changed"),
        (anthropic({"type": "previous_message_not_found"}), None),
        (anthropic({"type": "unavailable"}), None),
        (anthropic({"type": "of_next_year"}), "of_next_year"),
        (anthropic(7), None),
        ({"diagnostics": 7}, None),
        ({"prompt_cache_diagnostics": None}, None),
        (openai("cache_miss", reason="verbosity_changed"), "verbosity_changed"),
        (openai("cache_hit"), "cache_hit"),
        (openai("comparison_response_not_found"), None),
        (openai("unavailable"), None),
    ],
)
def test_the_reason_is_read_from_either_shape(told, reason):
    assert diagnosis_reason(told) == reason


def parameter(**fields):
    return drifted(lambda r: r.update(fields))


def of_chat(**fields):
    return drifted(lambda r: r.update(fields), chat_request())


TOOLS = drifted(lambda r: r["tools"].pop())
SYSTEM = drifted(lambda r: r.update(system="x"))
MESSAGES = drifted(lambda r: r["messages"][0].update(content="x"))


@pytest.mark.parametrize(
    ("reason", "kind", "found"),
    [
        ("model_changed", "model_changed", parameter(model="claude-opus-5")),
        ("model_changed", "tier_param_changed", parameter(speed="fast")),
        ("tools_changed", "prefix_drift", TOOLS),
        ("system_changed", "prefix_drift", SYSTEM),
        ("messages_changed", "prefix_drift", MESSAGES),
        ("messages_changed", "compacted", None),
        ("messages_changed", "tier_param_changed", parameter(tool_choice={"type": "any"})),
        ("input_changed", "prefix_drift", SYSTEM),
        ("input_changed", "prefix_drift", MESSAGES),
        ("prompt_cache_key_changed", "key_changed", None),
        ("context_compacted", "compacted", None),
        ("reasoning_effort_changed", "tier_param_changed", of_chat(reasoning_effort="low")),
        ("verbosity_changed", "tier_param_changed", of_chat(verbosity="low")),
        ("service_tier_changed", "tier_param_changed", of_chat(service_tier="flex")),
        ("text_format_changed", "tier_param_changed", of_chat(response_format={"type": "x"})),
        ("no_difference", "ttl_expired", None),
        ("cache_hit", "provider_evicted", None),
        ("tools_changed", "no_mark", None),
        ("tools_changed", "below_min", None),
    ],
)
def test_what_agrees_is_no_contradiction(reason, kind, found):
    assert contradiction(said(reason), kind, found) is None


def said(reason):
    if reason == "no_difference":
        return {"diagnostics": None}
    return openai(reason) if reason == "cache_hit" else anthropic({"type": reason})


@pytest.mark.parametrize(
    ("reason", "kind", "found", "told"),
    [
        ("tools_changed", "provider_evicted", None, "says tools_changed; what was sent says prov"),
        ("system_changed", "prefix_drift", TOOLS, "first difference in what was sent is tools[3]"),
        ("tools_changed", "prefix_drift", SYSTEM, "is system@0"),
        ("no_difference", "prefix_drift", SYSTEM, "says that nothing changed; the first"),
        ("cache_hit", "key_changed", None, "the cache was hit; what was sent says key_changed"),
        ("verbosity_changed", "tier_param_changed", parameter(speed="fast"), "is speed"),
        ("context_compacted", "ttl_expired", None, "says context_compacted"),
        ("model_changed", "ttl_expired", None, "says model_changed"),
        ("messages_changed", "ttl_expired", None, "says messages_changed"),
    ],
)
def test_what_does_not_agree_is_said(reason, kind, found, told):
    assert told in contradiction(said(reason), kind, found)


def test_every_kind_and_pattern_of_drift_is_on_the_page():
    page = (ROOT / "docs/reference/cache-misses.md").read_text()
    named = set(re.findall(r"`(\w+)`", page.partition("## Kinds of drift")[2]))

    assert {*get_args(DriftKind), *PATTERNS} <= named
