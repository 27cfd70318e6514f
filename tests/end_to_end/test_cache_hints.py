"""Cache hints against caches that work as the providers' do."""

from __future__ import annotations

from itertools import pairwise

import pytest

import smartclient
from server_reference.scripted import ErrorAnswer
from server_reference.scripted.providers import CacheRules
from smartclient.prompt_cache import CacheHints
from tests.end_to_end.cached_calls import MINUTE, text_block, user

RULES = "rule by rule " * 600  # some 1,950 tokens
LONG = "rule by rule " * 2000


def ratio(usages):
    """Tokens that were read, of all."""
    return sum(u.cache_read for u in usages) / sum(u.input_tokens for u in usages)


@pytest.mark.parametrize("api", ["messages", "chat", "responses"])
@pytest.mark.parametrize("hints", ["cautious", "full"])
def test_a_growing_chat_is_read_from_the_cache(cached, api, hints):
    used = cached(api, hints).chat(6, system=LONG)

    assert ratio(used[3:]) > 0.9


def test_each_turn_of_a_chat_writes_what_is_new_only(cached):
    used = cached(hints="full").chat(6, system=RULES)

    for before, turn in pairwise(used[2:]):
        assert turn.cache_read == before.cache_read + before.cache_write["5m"]
        assert turn.uncached == 0


def test_without_hints_nothing_is_written(cached):
    used = cached(hints="off").chat(4, system=RULES)

    assert [(u.cache_read, u.cache_write) for u in used] == [(0, {})] * 4


def test_the_first_call_is_sent_as_it_is_by_default(cached):
    one = cached()
    one.ask(system=RULES, messages=[user("Hello")])

    assert one.bodies()[0]["system"] == RULES


def test_a_call_that_is_never_repeated_costs_no_premium_by_default(cached):
    one = cached()

    used = [one.ask(system=f"{n} {LONG}", messages=[user("Hi")]).usage for n in range(5)]

    assert [u.cache_write for u in used] == [{}] * 5


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_shared_prefix_is_read_whatever_stands_behind_it(cached, api):
    """OpenAI's own mark stands behind the varying part (openai/codex#35300)."""
    plain, hinted = cached(api, "off"), cached(api, "cautious")
    name = "messages" if api == "chat" else "input"
    developer = {"role": "developer", "content": LONG}

    def run(one):
        asked = [[developer, user(f"{n} is the question " * 20)] for n in range(8)]
        return [one.ask(**{name: said}).usage for said in asked]

    assert ratio(run(plain)) == 0
    assert ratio(run(hinted)[2:]) > 0.8


def test_a_varying_end_is_not_written_once_it_is_known_to_vary(cached):
    one = cached("chat")
    developer = {"role": "developer", "content": LONG}

    used = [one.ask(messages=[developer, user(f"{n} " * 400)]).usage for n in range(8)]

    assert used[1].cache_write["30m"] > 0
    assert [u.cache_write for u in used[-3:]] == [{}] * 3
    assert one.bodies()[-1]["prompt_cache_options"] == {"mode": "explicit"}


def test_a_volatile_system_text_is_routed_around_with_the_next_call(cached):
    one = cached()
    used = []
    for n in range(5):
        system = [text_block(RULES), text_block(f"Now it is 10:{n:02}:17.")]
        used.append(one.ask(system=system, messages=[user("Hello " * 50)]).usage)

    assert used[1].cache_write["5m"] > 1900
    assert all(u.cache_read > 1900 for u in used[2:])


def agent_turn(number, calls, *, is_alternating=False):
    """The model's calls of a tool and their results: two positions, or one each."""
    asked, done = [], []
    for n in range(calls):
        name = f"call_{number}_{n}"
        asked.append({"type": "tool_use", "id": name, "name": "look", "input": {"at": n}})
        if is_alternating:
            asked.append(text_block(f"and then {n}"))
        done.append({"type": "tool_result", "tool_use_id": name, "content": "found " * 20})
    return [{"role": "assistant", "content": asked}, {"role": "user", "content": done}]


@pytest.mark.parametrize(
    ("calls", "is_alternating"),
    [pytest.param(12, False, id="one-run"), pytest.param(13, True, id="past-the-look-back")],
)
@pytest.mark.parametrize("hints", ["cautious", "full"])
def test_many_blocks_in_one_turn_lose_nothing(cached, calls, is_alternating, hints):
    one, said, used = cached(hints=hints), [user("Begin.")], []
    tools = [{"name": "look", "input_schema": {"type": "object"}, "description": RULES}]
    for number in range(6):
        used.append(one.ask(tools=tools, messages=said).usage)
        said = said + agent_turn(number, calls, is_alternating=is_alternating)

    reads = [u.cache_read for u in used[2:]]
    assert reads == sorted(reads)
    assert reads[-1] > reads[0] > 0


def test_a_prompt_below_the_minimum_is_learned_and_marked_no_more(cached):
    """The catalog says 512, and this provider keeps nothing below 4,000."""
    rules = CacheRules(minimum_tokens={}, default_minimum_tokens=4000)
    one = cached(hints="full", rules=rules)

    used = one.chat(4, system=RULES, words=1)

    assert [u.cache_write for u in used] == [{}] * 4
    assert "cache_control" in str(one.bodies()[0])
    assert "cache_control" not in str(one.bodies()[-1])


def test_once_a_prompt_is_long_enough_it_is_marked_again(cached):
    rules = CacheRules(minimum_tokens={}, default_minimum_tokens=3000)
    one = cached(hints="full", rules=rules)

    used = one.chat(8, system=RULES, words=100)

    assert used[-1].cache_read > 3000


@pytest.mark.parametrize(
    ("gap", "ttl"),
    [
        pytest.param(1 * MINUTE, "5m", id="soon"),
        pytest.param(6 * MINUTE, "1h", id="past-five-minutes"),
    ],
)
@pytest.mark.parametrize("hints", ["cautious", "full"])
def test_the_time_to_live_follows_the_gaps(cached, gap, ttl, hints):
    used = cached(hints=hints).chat(6, system=RULES, gap=gap)

    assert set(used[-1].cache_write) == {ttl}
    assert all(u.cache_read > 1900 for u in used[3:])


def test_what_comes_too_late_for_any_time_to_live_is_left_alone(cached):
    used = cached().chat(5, system=RULES, gap=61 * MINUTE)

    assert [u.cache_write for u in used] == [{}] * 5


def test_interleaved_conversations_are_each_read_from_the_cache(cached):
    one, used = cached(), []
    said = {name: [] for name in "abc"}
    for turn in range(6):
        for name, turns in said.items():
            turns.append(user(f"{name} asks {turn} " * 30))
            used.append(one.ask(system=f"For {name}. {RULES}", messages=turns).usage)
            turns.append({"role": "assistant", "content": "Fine."})

    assert all(u.cache_read > 1900 for u in used[6:])


def test_what_is_declared_static_is_marked_with_the_first_call(cached):
    one = cached(hints=CacheHints(static=("system",)))

    used = [one.ask(system=RULES, messages=[user(f"{n}?")]).usage for n in range(2)]

    assert used[0].cache_write["5m"] > 1900
    assert used[1].cache_read == used[0].cache_write["5m"]


def marked(text, ttl="5m"):
    return text_block(text, cache_control={"type": "ephemeral", "ttl": ttl})


def test_three_marks_of_the_caller_and_one_on_the_request_leave_no_room(cached):
    one = cached(hints="full")
    system = [marked(RULES), marked("a " * 900), marked("b " * 900)]
    fields = {"system": system, "cache_control": {"type": "ephemeral"}}

    reports = [one.ask(messages=[user(f"{n} " * 300)], **fields) for n in range(3)]

    assert [report.status for report in reports] == [200] * 3
    assert str(one.bodies()[-1]).count("cache_control") == 4


def test_a_mark_is_added_where_the_caller_s_own_reads_nothing(cached):
    """The caller marks the volatile end alone, which nobody reads."""
    one = cached()
    used = []
    for n in range(4):
        system = [text_block(RULES), marked(f"Now it is 10:{n:02}:17. " * 200)]
        used.append(one.ask(system=system, messages=[user("Hi")]).usage)

    assert used[0].cache_read == used[1].cache_read == 0
    assert used[3].cache_read > 1900


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        pytest.param({"system": [marked(f"{n}{RULES}") for n in range(5)]}, "at most 4", id="5"),
        pytest.param({"system": [marked("a"), marked("b", "1h")]}, "must stand before", id="order"),
    ],
)
def test_marks_that_the_provider_refuses_are_refused_before_they_are_sent(cached, fields, told):
    one = cached()

    with pytest.raises(smartclient.RefusedError, match=told):
        one.ask(messages=[user("Hi")], **fields)

    assert one.bodies() == []


def test_an_address_that_refuses_marks_gets_the_call_without_them(cached):
    """A gateway that knows no marks answers 400 to them."""

    def answer(received):
        is_marked = b"cache_control" in received.body
        return ErrorAnswer(status=400, message=_UNKNOWN) if is_marked else "Fine."

    one = cached(hints="full", answer=answer)

    statuses = [one.ask(system=RULES, messages=[user("Hi")]).status for _ in range(3)]

    assert statuses == [200] * 3
    assert [entry.status for entry in one.server.journal.entries()] == [400, 200, 200, 200]


_UNKNOWN = "system.0.cache_control: Extra inputs are not permitted"


def anthropic_sdk(one):
    import anthropic

    sdk = anthropic.Anthropic(base_url=one.server.base_url, api_key="test")
    client = smartclient.wrap(sdk, cache_hints="full", clock=one.clock)
    return client, lambda said: client.messages.create(
        model=one.model, max_tokens=9, system=LONG, messages=said
    )


def openai_sdk(one):
    import openai

    sdk = openai.OpenAI(base_url=f"{one.server.base_url}/v1", api_key="test")
    client = smartclient.wrap(sdk, cache_hints="full", clock=one.clock)
    system = [{"role": "system", "content": LONG}]
    return client, lambda said: client.chat.completions.create(
        model=one.model, messages=system + said
    )


@pytest.mark.parametrize(("api", "sdk"), [("messages", anthropic_sdk), ("chat", openai_sdk)])
def test_a_wrapped_sdk_reads_from_the_cache_too(cached, api, sdk):
    one = cached(api)
    client, ask = sdk(one)
    said, used = [], []
    with client:
        for turn in range(5):
            said.append(user(f"question {turn} " * 40))
            ask(said)
            used.append(smartclient.last_report(client).usage)
            said.append({"role": "assistant", "content": "Fine."})

    assert ratio(used[3:]) > 0.9


def test_an_sdk_is_told_of_marks_that_would_be_refused(cached):
    import anthropic

    one = cached()
    client, _ = anthropic_sdk(one)
    system = [marked(f"{n}{RULES}") for n in range(5)]

    with client, pytest.raises(anthropic.BadRequestError, match="at most 4 cache marks"):
        client.messages.create(model=one.model, max_tokens=9, system=system, messages=[user("Hi")])

    assert one.bodies() == []


def test_calls_in_a_scope_share_what_is_known_of_the_prompts(cached):
    one = cached()
    one.chat(2, system=RULES)

    with smartclient.scope(tag="the rest of it"):
        used = one.chat(3, system=RULES)

    assert used[2].cache_read > 1900


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["messages", "responses"])
def test_the_provider_s_own_word_is_in_the_report_if_it_is_asked(cached, api, stream):
    one = cached(api, CacheHints(mode="full", diagnostics=True))
    reports = []
    for n in range(3):
        system = LONG if n < 2 else f"Now: {LONG}"
        name = "system" if api == "messages" else "instructions"
        turns = {"messages" if api == "messages" else "input": [user("Hello " * 60)]}
        answer = one.send(**{name: system}, **turns, stream=stream)
        if stream:
            list(answer)
        reports.append(one.client.last_report)

    told = [report.cache.provider for report in reports]
    changed = {"messages": "system_changed", "responses": "input_changed"}[api]
    assert changed not in str(told[1])
    assert changed in str(told[2])


def test_nobody_is_asked_by_default(cached):
    one = cached(hints="full")
    one.chat(2, system=LONG)

    assert "diagnostics" not in str(one.bodies())
