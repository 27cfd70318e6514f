from __future__ import annotations

import pytest

from server_reference.scripted.answers import Answer, ErrorAnswer
from server_reference.scripted.rules import (
    ExhaustedError,
    NoRuleError,
    RuleBook,
    rule,
    rule_from_json,
    rules_of,
)
from tests.server_reference.scripted.received import a_request


def picked(book, count, **fields):
    return [book.pick(a_request(**fields)).text for _ in range(count)]


def test_the_first_rule_that_matches_is_played():
    book = RuleBook([rule("cat", user="cat"), rule("pet"), rule("never")])

    assert picked(book, 1, user="a cat") + picked(book, 1, user="a dog") == ["cat", "pet"]


def test_one_item_is_played_for_every_request():
    assert picked(RuleBook([rule("x")]), 3) == ["x"] * 3


def test_a_list_is_played_once_each_and_never_again():
    book = RuleBook([rule(["one", "two"], name="numbers")])

    assert picked(book, 2) == ["one", "two"]
    with pytest.raises(ExhaustedError, match=r"rule 'numbers' .* played all of its 2"):
        book.pick(a_request())


def test_a_rule_that_is_exhausted_leaves_the_rest_to_later_ones():
    book = RuleBook([rule("busy", times=2), rule("ok")])

    assert picked(book, 4) == ["busy", "busy", "ok", "ok"]


def test_a_request_that_no_rule_matches_is_told_the_nearest():
    book = RuleBook([rule("a", model="gpt-*", turn=2), rule("b", model="claude-*")])

    with pytest.raises(NoRuleError) as caught:
        book.pick(a_request(model="tiny"))

    assert str(caught.value) == (
        "no rule matches POST '/v1/messages'; the nearest of 2 is rule 2 (model='claude-*'), "
        "but model is 'tiny', not 'claude-*'; change it or add a rule"
    )


def test_without_rules_nothing_matches():
    with pytest.raises(NoRuleError, match="the server has no rules"):
        RuleBook().pick(a_request())


def test_rules_can_be_added_replaced_and_played_again():
    book = RuleBook([rule(["one"])])
    picked(book, 1)

    book.reset()
    again = picked(book, 1)
    book.add(rule("first"), first=True)
    first = picked(book, 1)
    book.replace([rule("other")])

    assert again + first + picked(book, 1) == ["one", "first", "other"]


def test_a_book_knows_how_often_a_rule_was_played():
    one = rule("x")
    book = RuleBook([one])

    picked(book, 3)

    assert book.played(one) == 3


@pytest.mark.parametrize("times", [0, -1])
def test_a_rule_plays_at_least_once(times):
    with pytest.raises(ValueError, match="times: must be at least 1"):
        rule("x", times=times)


def test_a_list_has_its_own_count():
    with pytest.raises(ValueError, match="times: a list is played once each"):
        rule(["x"], times=2)


def test_an_unknown_condition_names_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'model'"):
        rule("x", modle="tiny")


def test_a_rule_can_come_from_json():
    made = rule_from_json({"model": "tiny", "then": ["Hi", {"status": 529}], "name": "n"})

    assert (made.name, made.items) == ("n", (Answer("Hi"), ErrorAnswer(529)))
    assert not made.matches(a_request(model="other"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": "x"}, "a rule needs then"),
        ({"than": "x"}, "did you mean 'then'"),
        ({"then": "x", "modle": "y"}, "did you mean 'model'"),
        ({"then": "x", "when": "y"}, "'when' is no field of a rule"),
        ({"then": {"txt": "x"}}, "did you mean 'text'"),
        (5, "a rule is an object, not int"),
    ],
)
def test_a_wrong_rule_in_json_names_the_field(given, said):
    with pytest.raises(ValueError, match=said):
        rule_from_json(given)


@pytest.mark.parametrize(
    ("given", "count"),
    [
        pytest.param((), 0, id="none"),
        pytest.param("Hi", 1, id="text"),
        pytest.param(["one", "two"], 1, id="sequence"),
        pytest.param(rule("x"), 1, id="rule"),
        pytest.param([rule("x"), {"then": "y"}], 2, id="rules"),
        pytest.param({"then": "y"}, 1, id="rule-from-json"),
        pytest.param({"text": "y"}, 1, id="answer-from-json"),
    ],
)
def test_a_server_takes_rules_or_what_one_plays(given, count):
    assert len(rules_of(given)) == count


def test_rules_do_not_mix_with_what_is_none():
    with pytest.raises(TypeError, match="rule 2 of 2 is no rule"):
        rules_of([rule("x"), "y"])


@pytest.mark.parametrize("then", [rule("x"), [rule("x")]])
def test_a_rule_is_played_by_no_other(then):
    with pytest.raises(TypeError, match="then is a rule already; give a server rules by"):
        rule(then)


def test_a_condition_may_change_the_rules():
    book = RuleBook()

    def grow(received):
        book.add(rule("grown"))
        return False

    book.add(rule("never", when=grow))

    assert book.pick(a_request()) == Answer("grown")
