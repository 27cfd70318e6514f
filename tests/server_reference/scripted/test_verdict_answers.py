"""Errors that are the caller's own are not blamed on an SDK."""

from __future__ import annotations

import asyncio
import json

import pytest

from server_reference.scripted.evidence import Evidence
from server_reference.scripted.verdict import judge
from tests.server_reference.scripted.watched import Played

AGENT = (("user-agent", "OpenAI/Python 3.57.0"),)


def of_its_own():
    asyncio.run(asyncio.wait_for(asyncio.sleep(9), 0.001))


def of_its_own_reading():
    json.loads("no json")


def of_a_connection():
    raise ConnectionResetError("reset")


def in_an_sdk(call):
    """Run `call` in a frame of the SDK's."""
    exec("call()", {"__name__": "openai._base_client", "call": call})


@pytest.mark.parametrize(
    ("act", "rules"),
    [
        pytest.param(of_its_own, [], id="its-own-timeout"),
        pytest.param(of_its_own_reading, [], id="its-own-reading"),
        pytest.param(lambda: in_an_sdk(of_a_connection), ["foreign_error"], id="through-the-sdk"),
    ],
)
def test_whose_error_it_is(act, rules):
    played = Played()
    with pytest.raises((OSError, ValueError)), played.watch.scopes.new(None):
        played.exchange(headers=AGENT)
        act()

    evidence = Evidence(played.watch.journal.entries(), scopes=played.watch.scopes.all())
    assert judge(evidence).names == rules
