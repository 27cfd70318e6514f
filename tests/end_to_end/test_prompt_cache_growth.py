"""Conversations that grow: what each turn reads and writes, to the token."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from tests.end_to_end.cache_proof import says, share, text, tokens, told, ways

pytestmark = pytest.mark.sdk

SYSTEM = "rule by rule " * 600
QUESTION = "What of number {}? "
HEAD, TURN = 1950, 47
"""Tokens of the system prompt; of a question and of the answer before it."""


def test_the_figures_of_this_page_are_what_the_server_counts():
    assert tokens(SYSTEM) == HEAD
    assert tokens(QUESTION.format(1) * 10, "Fine.") == TURN


@ways("messages", "chat", "responses")
def test_each_turn_reads_all_before_it_and_writes_what_is_new(proof, api, way):
    reports = proof(api, way=way).chat(8, SYSTEM)

    ttl = "5m" if api == "messages" else "30m"
    for number, (before, turn) in enumerate(pairwise(reports[1:])):
        read = told(before).read + told(before).written[ttl]
        assert told(turn) == (read, {ttl: TURN}, 0), number


@ways("messages", "chat", "responses")
def test_by_the_fifth_turn_more_than_nine_tenths_are_read(proof, api, way):
    reports = proof(api, way=way).chat(5, SYSTEM)

    assert share(reports[4:]) > 0.97
    assert share(reports[1:]) > 0.95


@ways("messages")
def test_the_cautious_form_reads_that_much_from_the_third_turn_on(proof, api, way):
    reports = proof(api, way=way, hints="cautious").chat(6, SYSTEM)

    assert [told(one).read for one in reports[:2]] == [0, 0]
    assert [share([one]) > 0.95 for one in reports[2:]] == [True] * 4


@ways("chat", "responses")
def test_with_openai_the_cautious_form_does_so_from_the_second(proof, api, way):
    reports = proof(api, way=way, hints="cautious").chat(5, SYSTEM)

    assert [share([one]) > 0.95 for one in reports[1:]] == [True] * 4


def test_the_cautious_form_leaves_the_newest_question_unwritten(proof):
    reports = proof(hints="cautious").chat(6, SYSTEM)

    for before, turn in pairwise(reports[2:]):
        read = told(before).read + TURN
        assert told(turn) == (read, {"5m": TURN}, TURN)


@ways("messages")
def test_a_prediction_is_what_is_read_then(proof, api, way):
    reports = proof(api, way=way).chat(6, SYSTEM)

    assert [one.cache.predicted_read for one in reports[1:]] == [
        one.cache.actual_read for one in reports[1:]
    ]


@ways("messages")
def test_savings_are_negative_first_and_pay_with_the_second_turn(proof, api, way):
    reports = proof(api, way=way).chat(4, SYSTEM)

    first, second, *_ = [round(one.cache.savings * 1e9) for one in reports]
    assert first == -HEAD * 1000  # a write costs a quarter of $4 a million more
    assert second == HEAD * 3800 - 2 * TURN * 1000 + tokens("Fine.") * 1000


@ways("chat", "responses")
def test_an_automatic_cache_is_read_in_its_steps(proof, api, way):
    reports = proof(api, way=way, model="gpt-5.1").chat(5, SYSTEM)

    assert [told(one).read % 128 for one in reports] == [0] * 5
    assert all(told(one).read >= 1920 for one in reports[1:])
    assert [told(one).written for one in reports] == [{}] * 5


@ways("messages", "chat", "responses")
def test_a_second_conversation_that_begins_like_the_first_misses_nothing(proof, api, way):
    one = proof(api, way=way)
    one.chat(8, SYSTEM)

    again = one.chat(3, SYSTEM)

    assert [each.cache.miss for each in again] == [None] * 3
    assert told(again[0]).read == again[0].usage.input_tokens


# Many blocks in one turn.

TOOL = {"name": "look", "description": SYSTEM, "input_schema": {"type": "object"}}


def many_calls(number, calls, *, is_alternating):
    """The model's calls of a tool and their results: two positions, or one and many."""
    asked, done = [], []
    for n in range(calls):
        name = f"call_{number}_{n}"
        asked.append({"type": "tool_use", "id": name, "name": "look", "input": {"at": n}})
        if is_alternating:
            asked.append(text(f"and then {n}"))
        done.append({"type": "tool_result", "tool_use_id": name, "content": "found " * 20})
    return [says("assistant", asked), says("user", done)]


def an_agent_s_run(one, calls, *, is_alternating, turns=6):
    said = [says("user", "Begin.")]
    for number in range(turns):
        one.ask(tools=[TOOL], messages=said)
        one.clock.advance(20)
        said = said + many_calls(number, calls, is_alternating=is_alternating)
    return one.reports


@ways("messages")
@pytest.mark.parametrize(
    ("calls", "is_alternating"),
    [pytest.param(12, False, id="one-run"), pytest.param(12, True, id="25-positions")],
)
def test_many_calls_in_one_turn_are_read_whole_with_the_next(
    proof, api, way, calls, is_alternating
):
    reports = an_agent_s_run(proof(api, way=way), calls, is_alternating=is_alternating)

    for before, turn in pairwise(reports):
        assert told(turn).read == before.usage.input_tokens
        assert (told(turn).uncached, turn.cache.miss) == (0, None)


def test_a_caller_s_own_mark_at_the_end_loses_all_past_the_look_back(proof):
    """What the intermediate mark is for: without ours, 25 positions on, nothing is found."""
    one = proof(hints="off")
    said = [says("user", [text("Begin. " * 400)])]
    for number in range(4):
        marked = json.loads(json.dumps(said))
        marked[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        one.ask(tools=[TOOL], messages=marked)
        said = said + many_calls(number, 12, is_alternating=True)

    assert [told(each).read for each in one.reports] == [0] * 4


def test_beside_a_caller_s_mark_at_the_end_ours_keeps_the_hit(proof):
    one = proof(hints="cautious")
    said = [says("user", [text("Begin. " * 400)])]
    for number in range(5):
        marked = json.loads(json.dumps(said))
        marked[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        one.ask(tools=[TOOL], messages=marked)
        one.clock.advance(20)
        said = said + many_calls(number, 12, is_alternating=True)

    for before, turn in pairwise(one.reports):
        assert told(turn).read == before.usage.input_tokens


def test_turns_of_forty_positions_are_read_whole_too(proof):
    reports = an_agent_s_run(proof(), 40, is_alternating=True, turns=4)

    for before, turn in pairwise(reports):
        assert told(turn).read == before.usage.input_tokens


def test_with_one_place_left_it_goes_where_it_pays_and_the_look_back_is_told(proof):
    """The mark that reads what was written cannot write the end, 25 positions behind it."""
    one, said = proof(), [says("user", [text("Begin. " * 400)])]
    system = [text(f"{n} rule " * 300, ttl="5m") for n in range(3)]
    for number in range(5):
        one.ask(tools=[TOOL], system=system, messages=said)
        one.clock.advance(20)
        said = said + many_calls(number, 12, is_alternating=True)

    whole = one.reports[0].usage.input_tokens
    assert [told(each).read for each in one.reports[:3]] == [0, whole, whole]
    assert one.reports[3].cache.miss == "lookback_overflow"
    assert told(one.reports[4]).read == one.reports[2].usage.input_tokens


# What is left alone.


@ways("messages", "chat", "responses")
def test_a_prompt_below_two_kilobytes_is_not_looked_at(proof, api, way):
    one = proof(api, way=way)

    reports = one.chat(3, "Short. " * 20)

    assert [report.cache for report in reports] == [None] * 3
    assert [one.marks(number) for number in range(3)] == [[]] * 3


@ways("messages", "chat", "responses")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_turned_off_a_call_is_sent_byte_for_byte_as_without_us(proof, api, way, stream):
    one = proof(api, way=way, hints="off")

    one.say(SYSTEM, [says("user", "Hello  \N{SNOWMAN}")], **({"stream": True} if stream else {}))

    assert one.server.journal.entries()[0].body == one.plain_body()
    assert one.reports[0].cache is None


@ways("messages", "chat", "responses")
def test_the_first_call_is_sent_as_it_is_by_default(proof, api, way):
    one = proof(api, way=way, hints="cautious")

    one.say(SYSTEM, [says("user", "Hello  \N{SNOWMAN}")])

    assert one.server.journal.entries()[0].body == one.plain_body()


def test_a_model_that_nobody_knows_is_sent_as_it_is(proof):
    one = proof(model="claude-unheard-of", budgets=[])

    one.chat(3, SYSTEM)

    assert [one.marks(number) for number in range(3)] == [[]] * 3


def test_the_look_back_s_last_position_is_found(proof):
    """20 positions, the mark's own among them: an entry 19 before it is read, by itself."""
    one = proof(hints="off")
    blocks = [text(f"{n} " * 200) for n in range(21)]
    for end in (1, 20, 21):
        marked = [*blocks[: end - 1], blocks[end - 1] | {"cache_control": {"type": "ephemeral"}}]
        one.ask(messages=[says("user", marked)])

    assert [told(report).read > 0 for report in one.reports] == [False, False, True]
