"""One long beginning for many calls: all at once, and with another question each."""

from __future__ import annotations

import asyncio

import pytest

from server_reference.scripted import Answer, ErrorAnswer, rule
from smartclient.prompt_cache import CacheHints
from tests.end_to_end.cache_proof import says, share, text, tokens, told, ways

pytestmark = pytest.mark.sdk

SYSTEM = "rule by rule " * 600
LONG = "rule by rule " * 2000
HEAD = 1950
SLOW = Answer("Fine.", ttft=0.05)


class Together:
    """Answers nobody before eight have asked."""

    def __init__(self):
        self.asked, self.all = 0, asyncio.Event()

    async def __call__(self, received):
        self.asked += 1
        if self.asked == 8:
            self.all.set()
        await self.all.wait()
        return "Fine."


def eight(api):
    """Calls that begin alike and ask something else each."""
    asked = [[says("user", f"{number} is my question " * 10)] for number in range(8)]
    if api == "messages":
        return [{"system": SYSTEM, "messages": turns} for turns in asked]
    name = "messages" if api == "chat" else "input"
    return [{name: [says("developer", SYSTEM), *turns]} for turns in asked]


def written(reports):
    return sum(sum(told(one).written.values()) for one in reports)


@ways("messages", "responses")
def test_of_a_cold_fan_out_all_eight_write(proof, api, way):
    one = proof(api, way=way, answer=Together())

    reports = one.at_once(eight(api))

    assert [told(each).read for each in reports] == [0] * 8
    assert written(reports) >= 8 * HEAD
    assert sorted(each.cache.miss for each in reports) == ["cold_first"] + ["concurrent_race"] * 7


@ways("messages", "chat")
def test_where_seven_wait_for_the_first_one_writes_and_seven_read(proof, api, way):
    hints = CacheHints(mode="full", single_flight=20.0)
    one = proof(api, way=way, hints=hints, answer=SLOW, real_time=True)

    reports = one.at_once(eight(api))

    assert sorted(told(each).read for each in reports) == [0] + [HEAD] * 7
    assert [each.status for each in reports] == [200] * 8


def test_waiting_for_the_first_saves_what_seven_writes_cost(proof):
    hints = CacheHints(mode="full", single_flight=20.0)
    alone = proof(answer=Together())
    together = proof(hints=hints, answer=SLOW, real_time=True)

    saved = [
        sum(each.cache.savings for each in one.at_once(eight("messages")))
        for one in (alone, together)
    ]

    assert round(saved[0] * 1e9) == -8 * HEAD * 1000
    assert round(saved[1] * 1e9) == HEAD * (7 * 3800 - 1000)


@ways("messages")
def test_when_the_first_of_them_fails_another_one_writes(proof, api, way):
    """529 to whoever comes first; nobody is kept waiting by it."""
    hints = CacheHints(mode="full", single_flight=20.0)
    answers = [rule(ErrorAnswer(status=529), times=1), rule(SLOW)]
    one = proof(api, way=way, hints=hints, answer=answers, real_time=True, refuses=(529,))

    reports = one.at_once(eight(api))

    assert [each.status for each in reports] == [200] * 8
    assert sum(told(each).read == HEAD for each in reports) == 7


# One document, many questions.


def questions(one, number=8, **more):
    for n in range(number):
        one.say(LONG, [says("user", f"{n} is the question " * 20)], **more)
        one.clock.advance(20)
    return one.reports


@ways("chat", "responses")
def test_openai_s_own_mark_reads_none_of_a_shared_beginning(proof, api, way):
    """openai/codex#35300: rewritten at 1.25 times the price with every call."""
    reports = questions(proof(api, way=way, hints="off"))

    assert share(reports) == 0
    assert [sum(told(each).written.values()) for each in reports] == [
        each.usage.input_tokens for each in reports
    ]


@ways("chat", "responses")
@pytest.mark.parametrize(("hints", "reads"), [("cautious", 6), ("full", 7)])
def test_a_mark_of_ours_reads_all_of_it(proof, api, way, hints, reads):
    reports = questions(proof(api, way=way, hints=hints))

    assert [told(each).read for each in reports[-reads:]] == [tokens(LONG)] * reads
    assert share(reports[-reads:]) > 0.98


@ways("chat", "responses")
def test_questions_that_are_asked_once_are_not_written_for_long(proof, api, way):
    one = proof(api, way=way)

    reports = questions(one)

    assert [told(each).written for each in reports[3:]] == [{}] * 5
    assert one.bodies()[-1]["prompt_cache_options"] == {"mode": "explicit"}


@ways("chat")
def test_a_mode_that_the_caller_chose_is_kept(proof, api, way):
    one = proof(api, way=way)

    questions(one, extra_body={"prompt_cache_options": {"mode": "implicit"}})

    modes = {body["prompt_cache_options"]["mode"] for body in one.bodies()}
    assert modes == {"implicit"}


def test_over_all_calls_a_document_costs_a_fifth_of_what_it_did(proof):
    plain = questions(proof("chat", hints="off"), 20)
    hinted = questions(proof("chat", hints="cautious"), 20)

    assert sum(one.cost for one in hinted) < 0.25 * sum(one.cost for one in plain)


@ways("messages")
@pytest.mark.parametrize(("hints", "reads"), [("cautious", 6), ("full", 7)])
def test_with_anthropic_the_questions_are_never_written(proof, api, way, hints, reads):
    reports = questions(proof(api, way=way, hints=hints))

    assert [told(each).read for each in reports[-reads:]] == [tokens(LONG)] * reads
    assert [told(each).written for each in reports[-reads:]] == [{}] * reads


@pytest.mark.parametrize("hints", ["cautious", "full"])
def test_before_5_6_what_the_provider_reads_by_itself_is_read_with_us_too(proof, hints):
    plain, hinted = (proof("chat", model="gpt-5.1", hints=given) for given in ("off", hints))
    for one in (plain, hinted):
        for n in range(40):  # some 15 a minute with one key overflow to another machine
            one.say(SYSTEM, [says("user", f"{n}?")])
            one.clock.advance(1.0)

    assert share(hinted.reports) >= share(plain.reports) > 0.8


@pytest.mark.parametrize("hints", ["cautious", "full"])
def test_before_5_6_a_time_in_the_prompt_costs_no_more_with_us(proof, hints):
    plain, hinted = (proof("chat", model="gpt-5.1", hints=given) for given in ("off", hints))
    for one in (plain, hinted):
        for n in range(8):
            one.say(f"{SYSTEM}Now it is 10:{n:02}. {SYSTEM}", [says("user", "Hello")])

    assert share(hinted.reports) == share(plain.reports) > 0.3


def test_a_document_in_the_first_message_is_found_too(proof):
    """No system prompt at all: what several conversations share lies within a message."""
    one = proof(hints="cautious")
    for n in range(6):
        one.ask(messages=[says("user", [text(LONG), text(f"{n} is the question")])])
        one.clock.advance(20)

    assert [told(each).read for each in one.reports[2:]] == [tokens(LONG)] * 4
