"""Why less was read: one class for each call, on evidence only."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from smartclient.prompt_cache import MISS_KINDS, Evidence, classify, drift
from smartclient.wire import Usage
from tests.layers import ROOT
from tests.smartclient.prompt_cache.pairs import a_request, changed, chat_request, walked

REQUEST = a_request()
BEFORE = walked(REQUEST)
AFTER = walked(
    changed(
        REQUEST,
        lambda r: r["messages"].extend(
            [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "So go."}]
        ),
    )
)
SYSTEM, TAIL = 4, len(AFTER.blocks) - 1
WRITTEN = Usage(uncached=10, cache_read=0, cache_write={"5m": 2500}, output=9)


def evidence(**known):
    """A second request that had a mark where the first one had: all says that it is read."""
    usual = {
        "after": AFTER,
        "before": BEFORE,
        "entry": SYSTEM,
        "usage": WRITTEN,
        "cached_before": 2400,
        "predicted_read": 2400,
        "marks": (SYSTEM, TAIL),
        "prefix_tokens": 2500,
        "min_tokens": 1024,
        "gap": 20.0,
        "ttl": 300.0,
        "lookback": 20,
        "scope_before": {"key": "k1", "region": "eu"},
        "scope": {"key": "k1", "region": "eu"},
    }
    return Evidence(**{**usual, **known})


def edited(**fields):
    return walked(changed(REQUEST, lambda r: r.update(fields)))


def far():
    """A request with a mark 30 positions behind what was kept."""
    more = [{"role": "user", "content": f"line {i}"} for i in range(30)]
    return walked(changed(REQUEST, lambda r: r["messages"].extend(more)))


NOTHING = Usage(uncached=2510, cache_read=0, cache_write={}, output=9)
ONLY = {
    "no_mark": {"marks": ()},
    "below_min": {"usage": NOTHING, "cached_before": None, "prefix_tokens": 700},
    "model_changed": {"after": edited(model="claude-opus-4-5")},
    "key_changed": {"scope": {"key": "k2", "region": "eu"}},
    "compacted": {"is_compacted": True},
    "tier_param_changed": {"after": edited(speed="fast"), "marks": (SYSTEM,)},
    "prefix_drift": {"after": edited(system="It is 12:01."), "marks": (SYSTEM,)},
    "concurrent_race": {"overlaps": 7},
    "cold_first": {"before": None, "predicted_read": None, "cached_before": None},
    "ttl_expired": {"gap": 300.0},
    "lookback_overflow": {"after": far(), "marks": (SYSTEM + 33,)},
    "provider_evicted": {},
    "unknown": {"gap": None},
}


@pytest.mark.parametrize("kind", ONLY)
def test_a_class_is_recognised_where_only_it_holds(kind):
    miss = classify(evidence(**ONLY[kind]))

    assert miss.kind == kind


def test_what_was_expected_and_not_read_is_missed():
    assert [classify(evidence(**ONLY[kind])).missed for kind in ("ttl_expired", "cold_first")] == [
        2400,
        None,
    ]


def test_every_class_has_a_case():
    assert tuple(ONLY) == MISS_KINDS


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("no_mark", {"marks": 0}),
        ("below_min", {"tokens": 700, "min_tokens": 1024}),
        ("model_changed", {"before": "claude-sonnet-4-5", "after": "claude-opus-4-5"}),
        ("key_changed", {"name": "key"}),
        ("tier_param_changed", {"name": "speed", "tier": "system"}),
        ("prefix_drift", {"path": "system@0", "difference": "edit"}),
        ("concurrent_race", {"overlaps": 7}),
        ("ttl_expired", {"gap": 300.0, "ttl": 300.0}),
        ("lookback_overflow", {"positions": 34, "lookback": 20}),
        ("unknown", {"missing": "the gap"}),
    ],
)
def test_a_class_comes_with_what_it_was_recognised_by(kind, facts):
    assert classify(evidence(**ONLY[kind])).facts == facts


SENTENCES = {
    "no_mark": "mark the end of what repeats",
    "below_min": "about 700 tokens, and the model keeps 1,024 or more",
    "model_changed": "model changed; .*stay on one model",
    "key_changed": "key changed, and with it the cache",
    "compacted": "the history was compacted",
    "tier_param_changed": "speed changed; .*send the same speed in every call",
    "prefix_drift": "system@0 changed; .* tokens are written anew",
    "concurrent_race": "7 calls with this prefix were sent before a reply",
    "cold_first": "nobody sent this prefix before",
    "ttl_expired": "last used 5 min ago and is kept for 5 min",
    "lookback_overflow": "34 positions before the next mark, and a provider looks back over 20",
    "provider_evicted": "the provider no longer had the prefix",
    "unknown": "cannot be said: not known are the gap",
}


@pytest.mark.parametrize("kind", SENTENCES)
def test_a_miss_is_told_in_a_sentence(kind):
    told = str(classify(evidence(**ONLY[kind])))

    assert re.search(SENTENCES[kind], told)


@pytest.mark.parametrize(
    "usage",
    [
        pytest.param(None, id="no-usage"),
        pytest.param(Usage(output=9), id="no-input"),
        pytest.param(Usage(uncached=10, output=9), id="reads-not-told"),
        pytest.param(Usage(uncached=10, cache_read=2400, output=9), id="all-read"),
        pytest.param(Usage(uncached=10, cache_read=2160, output=9), id="nine-tenths-read"),
    ],
)
def test_nothing_is_missed_where_nothing_is_known_to_be(usage):
    assert classify(evidence(usage=usage)) is None


def test_a_part_of_it_can_be_missed():
    usage = Usage(uncached=10, cache_read=2100, cache_write={"5m": 400}, output=9)

    miss = classify(evidence(usage=usage))

    assert (miss.kind, miss.missed) == ("provider_evicted", 300)


def test_a_difference_behind_what_was_kept_is_no_reason():
    other = walked(changed(REQUEST, lambda r: r["messages"][0].update(content="Else?")))

    assert classify(evidence(after=other)).kind == "provider_evicted"


def test_a_difference_to_what_was_never_kept_is_no_reason():
    miss = classify(evidence(after=edited(system="New."), cached_before=0, predicted_read=0))

    assert miss.kind == "cold_first"


def test_no_difference_is_claimed_without_the_request_before():
    told = drift(BEFORE, edited(system="New."))

    assert classify(evidence(before=None, drift=told)).kind == "unknown"


def test_a_difference_that_the_caller_priced_is_kept():
    told = drift(BEFORE, edited(system="New."), tokens_per_byte=1.0)

    assert classify(evidence(after=edited(system="New."), drift=told)).drift is told


def test_marks_before_what_was_kept_do_not_find_it():
    miss = classify(evidence(marks=(2,)))

    assert (miss.kind, miss.facts) == ("no_mark", {"marks": 1, "entry": "system"})


def test_marks_that_no_block_has_say_nothing():
    miss = classify(evidence(marks=(TAIL + 1,)))

    assert miss.kind == "provider_evicted"


def test_a_prefix_that_was_kept_once_is_long_enough():
    assert classify(evidence(usage=NOTHING)).kind == "provider_evicted"


def test_a_prompt_that_was_read_whole_missed_nothing_of_a_longer_one():
    usage = Usage(uncached=0, cache_read=1900, cache_write={}, output=9)

    assert classify(evidence(usage=usage, cached_before=9000)) is None


@pytest.mark.parametrize(
    ("tokens", "kind"),
    [pytest.param(1023, "below_min", id="shorter"), pytest.param(1024, "no_mark", id="as-long")],
)
def test_where_no_mark_would_help_none_is_missed(tokens, kind):
    usage = Usage(uncached=tokens, cache_read=0, cache_write={}, output=9)

    miss = classify(evidence(usage=usage, marks=(), cached_before=0, prefix_tokens=tokens))

    assert miss.kind == kind


def test_an_automatic_cache_needs_no_mark():
    usage = Usage(uncached=900, cache_read=0, output=9)
    known = {"usage": usage, "marks": None, "is_automatic": True, "cached_before": None}

    assert classify(evidence(**known)).facts == {"tokens": 900, "min_tokens": 1024}
    for other in (WRITTEN, Usage(uncached=1100, cache_read=0, output=9)):
        assert classify(evidence(**{**known, "usage": other})).kind == "provider_evicted"


def test_another_key_in_the_request_is_another_cache():
    before, after = (walked(chat_request(prompt_cache_key=key)) for key in "ab")
    known = {"before": before, "after": after, "entry": None, "is_automatic": True}

    miss = classify(evidence(**known))

    assert (miss.kind, miss.facts) == ("key_changed", {"name": "prompt_cache_key"})


def test_the_provider_knows_that_it_compacted():
    told = {"prompt_cache_diagnostics": {"type": "cache_miss", "reason": "context_compacted"}}

    miss = classify(evidence(diagnosis=told))

    assert (miss.kind, miss.provider, miss.contradiction) == ("compacted", told, None)


def test_what_the_provider_says_stands_beside_and_does_not_decide():
    told = {"diagnostics": {"cache_miss_reason": {"type": "tools_changed"}}}

    miss = classify(evidence(diagnosis=told))

    assert (miss.kind, miss.provider) == ("provider_evicted", told)
    assert miss.contradiction in str(miss)


def test_a_miss_is_exported_as_plain_values():
    told = json.loads(json.dumps(classify(evidence(**ONLY["prefix_drift"])).to_dict()))

    assert (told["kind"], told["drift"]["path"]) == ("prefix_drift", "system@0")


def test_no_evidence_but_tokens_is_unknown_and_never_more():
    bare = Evidence(after=AFTER, usage=WRITTEN, predicted_read=100)

    assert classify(bare).kind == "unknown"


@pytest.mark.parametrize("field", [name for name in Evidence.__struct_fields__ if name != "after"])
def test_whatever_is_left_out_no_difference_is_made_up(field):
    default = getattr(Evidence(after=AFTER), field)

    miss = classify(msgspec.structs.replace(evidence(), **{field: default}))

    assert miss is None or miss.drift is None


def test_every_class_is_on_its_page():
    page = (ROOT / "docs/reference/cache-misses.md").read_text()

    assert re.findall(r"^\| `(\w+)` \| \w[^|]+\|[^|]+\|[^|]+\|$", page, re.M) == list(MISS_KINDS)
