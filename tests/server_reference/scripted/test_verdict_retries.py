"""Retries that only look wrong are left alone, whatever the method, the keys and the status."""

from __future__ import annotations

import pytest

from server_reference.scripted.evidence import Evidence
from server_reference.scripted.ops import Body, End, Head
from server_reference.scripted.verdict import judge
from tests.server_reference.scripted.watched import HELLO, Played

GET = {"method": "GET", "target": "/v1/models"}


def refused(status, *fields):
    return Head(status, fields), Body(b"{}"), End()


def found(played):
    """The rules that the client broke."""
    journal, scopes = played.watch.journal, played.watch.scopes
    return judge(Evidence(journal.entries(), journal.connections(), scopes.all())).names


def asked(played, times, ops, *, every, body=b"", **more):
    for _ in range(times):
        played.exchange(body, ops=ops, **more)
        played.clock.advance(every)


@pytest.mark.parametrize("status", [404, 503])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_who_looks_whether_something_is_there_yet_may_look_often(status, method):
    played = Played()
    asked(played, 8, refused(status), every=1.0, **GET | {"method": method})

    assert found(played) == []


@pytest.mark.parametrize(
    ("status", "every", "rule"),
    [
        pytest.param(503, 0.01, "retry_storm", id="without-waiting"),
        pytest.param(401, 1.0, "retried_for_nothing", id="without-the-right"),
    ],
)
def test_who_looks_may_not_look_like_that(status, every, rule):
    played = Played()
    asked(played, 3, refused(status), every=every, **GET)

    assert found(played) == [rule]


@pytest.mark.parametrize(
    ("scoped", "headers"),
    [(True, ()), (False, (("x-stainless-retry-count", "1"),))],
    ids=["watched", "says-it-retries"],
)
def test_a_get_that_is_a_retry_is_judged_as_one(scoped, headers):
    played = Played()
    scope = played.watch.scopes.new(None)
    if scoped:
        scope.__enter__()
    asked(played, 2, refused(404), every=1.0, headers=headers, **GET)

    assert found(played) == ["retried_for_nothing"]


def test_a_redirect_to_the_same_place_is_no_answer():
    played = Played()
    with played.watch.scopes.new(None):
        played.exchange(ops=refused(307, ("location", "/v1/chat/completions")))
        played.exchange(ops=HELLO)

    assert found(played) == []


@pytest.mark.parametrize(("key", "rules"), [("one", ["retry_after_ignored"]), ("two", [])])
def test_other_keys_have_other_limits(key, rules):
    played = Played()
    for own in ("one", key):
        played.exchange(
            ops=refused(429, ("retry-after", "60")),
            headers=(("authorization", f"Bearer key-number-{own}"),),
        )
        played.clock.advance(1)

    assert found(played) == rules


@pytest.mark.parametrize(
    ("path", "rules"),
    [("/v1beta/openai", []), ("/v1", ["misplaced_key"])],
    ids=["google", "openai"],
)
def test_googles_key_belongs_to_googles_chat_completions(path, rules):
    played = Played()
    key = (("authorization", "Bearer AIza0123456789"),)
    played.exchange(target=f"{path}/chat/completions", headers=key)

    assert found(played) == rules
