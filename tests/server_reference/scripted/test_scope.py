"""A call that the test watches: whose requests are whose, and what became of it."""

from __future__ import annotations

import pytest

from tests.server_reference.scripted.received import a_request
from tests.server_reference.scripted.watched import Played


def scopes_of(played):
    return [entry.scope for entry in played.watch.journal.entries()]


def test_requests_belong_to_the_call_that_is_open():
    played = Played()
    played.exchange()
    with played.watch.scopes.new(None) as call:
        played.exchange()
    played.exchange()

    assert scopes_of(played) == [None, call.number, None]


def test_calls_at_once_are_told_apart_by_their_text():
    scopes = Played().watch.scopes
    with scopes.new("cats") as cats, scopes.new("dogs") as dogs:
        found = [scopes.of(a_request(user=f"tell me about {one}")) for one in ("dogs", "cats", "")]

    assert found == [dogs.number, cats.number, None]


@pytest.mark.parametrize("users", [("question 1", "question 10"), ("question 10", "question 1")])
def test_a_text_that_is_a_part_of_another_takes_none_of_its_requests(users):
    scopes = Played().watch.scopes
    first, second = map(scopes.new, users)
    with first, second:
        found = {one: scopes.of(a_request(user=f"{one}, please")) for one in users}

    assert found == {users[0]: first.number, users[1]: second.number}


@pytest.mark.parametrize(
    "users", [(None, None), ("cats", None), (None, "cats"), ("cats", "cats"), ("cats", "")]
)
def test_calls_at_once_that_nothing_tells_apart_are_refused(users):
    scopes = Played().watch.scopes
    first, second = map(scopes.new, users)

    with first, pytest.raises(RuntimeError, match=r"server\.call\(user="), second:
        pass


def test_an_exception_is_the_calls_error():
    call = Played().watch.scopes.new(None)

    with pytest.raises(ValueError, match="no"), call:
        raise ValueError("no")

    assert isinstance(call.error, ValueError)


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param({}, id="none"),
        pytest.param({"text": "", "abandoned": True}, id="two"),
        pytest.param({"text": "a", "error": ValueError()}, id="text-and-error"),
    ],
)
def test_a_call_ends_in_one_way(outcome):
    with pytest.raises(ValueError, match="ends in one way"):
        Played().watch.scopes.new(None).outcome(**outcome)


def test_an_empty_text_is_an_outcome():
    call = Played().watch.scopes.new(None)

    call.outcome("")

    assert call.text == ""
