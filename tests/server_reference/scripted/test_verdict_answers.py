"""Which errors are foreign to the caller of an SDK."""

from __future__ import annotations

import pytest

from server_reference.scripted.evidence import Evidence
from server_reference.scripted.verdict_answers import foreign_error
from tests.server_reference.scripted.watched import Played


def an_error(module, *bases):
    return type("SomeError", bases or (Exception,), {"__module__": module})("no")


def findings(error, agent="OpenAI/Python 3.57.0"):
    played = Played()
    with played.watch.scopes.new(None) as call:
        played.exchange(headers=(("user-agent", agent),))
        call.error = error
    evidence = Evidence(played.watch.journal.entries(), scopes=played.watch.scopes.all())
    return list(foreign_error.check(evidence))


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(an_error("httpx2"), id="http-library"),
        pytest.param(an_error("h2.exceptions"), id="below-it"),
        pytest.param(ConnectionResetError(), id="of-the-system"),
        pytest.param(TimeoutError(), id="timeout-of-the-system"),
    ],
)
def test_errors_of_the_layers_below_are_foreign(error):
    assert len(findings(error)) == 1
    assert findings(error, agent="curl/8") == []


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(an_error("openai"), id="of-the-sdk"),
        pytest.param(an_error("mine"), id="of-the-caller"),
        pytest.param(ValueError("no"), id="of-python"),
        pytest.param(
            an_error("mine", type("Base", (OSError,), {"__module__": "openai"})), id="derived"
        ),
    ],
)
def test_other_errors_are_not(error):
    assert findings(error) == []
