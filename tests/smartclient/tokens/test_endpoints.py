"""Counting endpoints: what they are asked, and what they answer."""

from __future__ import annotations

import pytest

from smartclient.tokens import countable, exact
from smartclient.wire.anthropic_types import MessageTokensCount


def test_a_messages_request_keeps_what_the_endpoint_takes():
    payload = {"model": "m", "max_tokens": 9, "messages": [], "tools": [], "temperature": 1}

    assert countable(payload) == {"model": "m", "messages": [], "tools": []}


def test_a_responses_request_keeps_what_the_endpoint_takes():
    payload = {"model": "m", "input": "x", "instructions": "y", "max_output_tokens": 9}

    assert countable(payload) == {"model": "m", "input": "x", "instructions": "y"}


def test_any_other_request_is_refused():
    with pytest.raises(ValueError, match="this one holds model, prompt"):
        countable({"prompt": "x", "model": "m"})


@pytest.mark.parametrize("reply", [MessageTokensCount(12), {"input_tokens": 12}])
def test_an_answer_is_exact(reply):
    counted = exact(reply)

    assert (counted.p05, counted.p50, counted.p95) == (12, 12, 12)
    assert counted.source == "exact_endpoint"


@pytest.mark.parametrize("reply", [{}, {"input_tokens": "12"}, {"input_tokens": -1}, None])
def test_an_answer_without_a_number_is_refused(reply):
    with pytest.raises(ValueError, match="answers with input_tokens"):
        exact(reply)
