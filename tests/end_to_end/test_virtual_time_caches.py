"""Cached prompts in virtual time: read until their time to live has passed, and not after."""

from __future__ import annotations

import pytest

from server_reference.scripted import Answer
from server_reference.scripted.providers import CacheRules

PROMPT = "word" * 1200
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def marked(ttl):
    control = {"type": "ephemeral"} | ({} if ttl is None else {"ttl": ttl})
    return [{"type": "text", "text": PROMPT, "cache_control": control}]


@pytest.fixture
def cached(shared):
    """Starts the server, with a prompt cache, and tells how many tokens a call reads."""
    shared.serve(Answer("Hello!"), prompt_cache=CacheRules(retention="in_memory"))
    return lambda api, **fields: shared.ask(api, **fields).report.usage.cache_read


def claude(ttl, **more):
    return {"model": "claude-opus-5-5", "system": marked(ttl), **more}


def gpt(api, model, **more):
    text = {"input": PROMPT} if api == "responses" else {"messages": [user(PROMPT)]}
    return {"model": model, **text, **more}


def user(text):
    return {"role": "user", "content": text}


ANTHROPIC_TTLS = [(None, 5 * MINUTE), ("5m", 5 * MINUTE), ("1h", HOUR)]
ages = pytest.mark.parametrize(
    ("age", "is_read"),
    [
        pytest.param(-0.5, True, id="just-before"),
        pytest.param(0.0, False, id="at-its-end"),
        pytest.param(0.5, False, id="just-after"),
    ],
)


@ages
@pytest.mark.parametrize(("ttl", "lifetime"), ANTHROPIC_TTLS)
def test_a_marked_prefix_lives_for_its_time(shared, cached, ttl, lifetime, age, is_read):
    cached("messages", **claude(ttl))
    shared.clock.advance(lifetime + age)

    assert cached("messages", **claude(ttl)) == (1200 if is_read else 0)


@ages
@pytest.mark.parametrize(("ttl", "lifetime"), ANTHROPIC_TTLS)
@pytest.mark.parametrize("times", [1, 3])
def test_each_use_begins_its_time_anew(shared, cached, ttl, lifetime, times, age, is_read):
    for _ in range(times + 1):
        cached("messages", **claude(ttl))
        shared.clock.advance(lifetime * 0.9)
    shared.clock.advance(lifetime * 0.1 + age)

    assert cached("messages", **claude(ttl)) == (1200 if is_read else 0)


@ages
@pytest.mark.parametrize(("ttl", "lifetime"), ANTHROPIC_TTLS)
def test_a_later_mark_that_finds_it_is_a_use_too(shared, cached, ttl, lifetime, age, is_read):
    later = [{"role": "user", "content": marked(ttl)}]
    cached("messages", **claude(ttl))
    shared.clock.advance(lifetime * 0.9)
    unmarked = [{"type": "text", "text": PROMPT}]
    found = cached("messages", **(claude(ttl) | {"system": unmarked}), messages=later)
    shared.clock.advance(lifetime + age)

    again = cached("messages", **claude(ttl))

    assert (found, again) == (1200, 1200 if is_read else 0)


@ages
@pytest.mark.parametrize(("ttl", "lifetime"), ANTHROPIC_TTLS)
def test_its_time_counts_from_the_start_of_the_request(shared, ttl, lifetime, age, is_read):
    """A stream of four minutes leaves one of five."""
    slow = Answer("Hello!", ttft=240.0)
    shared.serve(slow, prompt_cache=CacheRules())
    begun = shared.clock.now()
    shared.ask(**claude(ttl), stream=True)
    took = shared.clock.now() - begun
    shared.clock.advance(lifetime - took + age)

    usage = shared.ask(**claude(ttl)).report.usage

    assert took == pytest.approx(240.0)
    assert usage.cache_read == (1200 if is_read else 0)


@pytest.mark.parametrize(("ttl", "lifetime"), ANTHROPIC_TTLS)
def test_what_has_expired_is_written_again(shared, cached, ttl, lifetime):
    cached("messages", **claude(ttl))
    shared.clock.advance(lifetime + 1)

    usage = shared.ask(**claude(ttl)).report.usage

    assert usage.cache_write == {ttl or "5m": 1200}


@pytest.mark.parametrize(
    ("idle", "read"), [(5 * MINUTE - 1, 1200), (5 * MINUTE + 1, 1200), (HOUR + 1, 0)]
)
def test_of_two_marks_the_one_of_an_hour_outlives_the_other(shared, cached, idle, read):
    both = {"system": marked("1h"), "model": "claude-opus-5-5"}
    more = [{"role": "user", "content": marked("5m")}]
    cached("messages", **both, messages=more)
    shared.clock.advance(idle)

    found = cached("messages", **both, messages=more)

    assert found == (2400 if idle < 5 * MINUTE else read)


OLD = [("chat", "gpt-5.1"), ("responses", "gpt-5.1")]


@pytest.mark.parametrize(("api", "model"), OLD)
@pytest.mark.parametrize(
    ("retention", "idle", "is_read"),
    [
        ("in_memory", 5 * MINUTE - 1, True),
        ("in_memory", 5 * MINUTE + 1, False),
        ("24h", 5 * MINUTE + 1, True),
        ("24h", DAY - 1, True),
        ("24h", DAY + 1, False),
    ],
)
def test_what_is_cached_automatically_ages(shared, cached, api, model, retention, idle, is_read):
    asked = gpt(api, model, prompt_cache_retention=retention)
    cached(api, **asked)
    shared.clock.advance(idle)

    assert bool(cached(api, **asked)) is is_read


@pytest.mark.parametrize(("api", "model"), OLD)
@pytest.mark.parametrize(("uses", "is_read"), [(13, True), (14, False)])
def test_in_memory_lasts_an_hour_at_most(shared, cached, api, model, uses, is_read):
    for _ in range(uses + 1):
        cached(api, **gpt(api, model))
        shared.clock.advance(4 * MINUTE)

    assert bool(cached(api, **gpt(api, model))) is is_read


@ages
@pytest.mark.parametrize(
    ("api", "options", "lifetime"),
    [
        ("chat", {}, 30 * MINUTE),
        ("responses", {}, 30 * MINUTE),
        ("responses", {"prompt_cache_options": {"ttl": "12h"}}, 12 * HOUR),
    ],
)
def test_a_breakpoint_lives_for_its_time(shared, cached, api, options, lifetime, age, is_read):
    asked = gpt(api, "gpt-5.6", **options)
    cached(api, **asked)
    shared.clock.advance(lifetime + age)

    assert cached(api, **asked) == (1200 if is_read else 0)


@pytest.mark.parametrize("seconds", [1, 5 * MINUTE + 1])
def test_anthropic_s_diagnosis_knows_what_changed_and_not_what_expired(shared, cached, seconds):
    first = shared.ask(**claude(None, diagnostics={"previous_message_id": None})).answer
    shared.clock.advance(seconds)
    again = {"previous_message_id": first.id}

    same = shared.ask(**claude(None, diagnostics=again)).answer
    changed = [{**marked(None)[0], "text": f"now {PROMPT}"}]
    other = shared.ask(**(claude(None, diagnostics=again) | {"system": changed})).answer

    assert same.to_dict()["diagnostics"] is None
    assert other.to_dict()["diagnostics"]["cache_miss_reason"]["type"] == "system_changed"


@pytest.mark.parametrize(("seconds", "reason"), [(1, "cache_hit"), (31 * MINUTE, "unavailable")])
def test_openai_s_diagnosis_tells_a_hit_from_what_expired(shared, cached, seconds, reason):
    asked = gpt("responses", "gpt-5.6")
    first = shared.ask("responses", **asked).answer
    shared.clock.advance(seconds)

    options = {"comparison_response_id": first.id}
    told = shared.ask("responses", **asked, prompt_cache_options=options).answer.to_dict()

    assert told["prompt_cache_diagnostics"]["type"] == reason
