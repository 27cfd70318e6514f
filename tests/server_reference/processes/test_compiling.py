"""Grammars compiled by a thread: in whose turn, and what becomes of those that cannot be."""

from __future__ import annotations

import select
from contextlib import closing

import pytest

from server_reference.core import GenerateRequest, Grammar, SamplingParams
from server_reference.processes.compiling import Compiling
from tests.server_reference.processes.fake_worker import FakeGrammars


@pytest.fixture
def grammars():
    return FakeGrammars()


@pytest.fixture
def compiling(grammars):
    with closing(Compiling(grammars)) as made:
        yield made
        grammars.may_go.set()


def a_request(id, source="x", *, tenant="t", **options):
    grammar = None if source is None else Grammar(kind="regex", source=source)
    params = SamplingParams(max_tokens=1, grammar=grammar)
    return GenerateRequest(id=id, tenant=tenant, prompt_token_ids=[1], params=params, **options)


def taken(compiling, count):
    """The next so many that are through, by id."""
    found = []
    while len(found) < count:
        ready, _, _ = select.select([compiling.descriptor], [], [], 30)
        assert ready, "nothing came"
        found += compiling.take()
    return {request.id: (request, error) for request, error in found}


def test_tenants_have_turns(compiling, grammars):
    for id in ["a1", "a2", "a3", "b1", "b2"]:
        assert compiling.begin(a_request(id, id, tenant=id[0]))
    grammars.may_go.set()

    taken(compiling, 5)

    assert grammars.compiled == ["a1", "b1", "a2", "b2", "a3"]


def test_what_needs_no_compiling_is_not_kept(compiling, grammars):
    grammars.kept = {"known"}

    assert not compiling.begin(a_request("a", None))
    assert not compiling.begin(a_request("b", "known"))
    assert compiling.take() == []


def test_what_cannot_be_compiled_says_why_and_others_follow(compiling, grammars, caplog):
    for source in ["bad", "worse", "good"]:
        compiling.begin(a_request(source, source))
    grammars.may_go.set()

    errors = {id: error for id, (_, error) in taken(compiling, 3).items()}

    assert errors["bad"] == "it is bad"
    assert "the regex made its compiler fail (BaseException); simplify it" in errors["worse"]
    assert errors["good"] is None
    assert "it panicked" in caplog.text


def test_what_is_dropped_is_neither_compiled_nor_taken(compiling, grammars):
    for id in "abc":
        compiling.begin(a_request(id, id))
    compiling.drop("a")  # which is being compiled, perhaps
    compiling.drop("b")
    grammars.may_go.set()

    assert list(taken(compiling, 1)) == ["c"]
    assert "b" not in grammars.compiled


def test_a_deadline_counts_from_when_the_request_came(compiling, grammars):
    compiling.begin(a_request("a", deadline=100.0))
    compiling.begin(a_request("b"))
    grammars.may_go.set()

    through = taken(compiling, 2)

    assert 0 < through["a"][0].deadline < 100.0
    assert through["b"][0].deadline is None
