"""Asking for less."""

from __future__ import annotations

import pytest

from smartclient import catalog
from smartclient.budgets import Downgrade
from smartclient.budgets.downgrade import cheaper, shorter
from smartclient.budgets.quote import Quotes
from smartclient.stores import Account, Amount, Balance
from smartclient.testing import a_call

PRICES = {"prices": {"input": 1, "output": 10}}
QUOTES = Quotes(catalog=catalog.override({"mine": PRICES, "small": PRICES}))
MESSAGES = [{"role": "user", "content": "Hello"}]
CUT = Downgrade(max_tokens=10)


def shortened(*places, path="/v1/messages", downgrade=CUT, **payload):
    """The call that comes of it, or `None`; `room` of a place is for output tokens."""
    given = {"model": "mine", "max_tokens": 100, "messages": MESSAGES} | payload
    call = a_call(path=path, payload=given)
    quote = QUOTES.of(call, is_priced=True)
    found = shorter(call, quote, QUOTES, downgrade, [place(quote) for place in places])
    assert found is None or found[1].amount.tokens < quote.amount.tokens
    return None if found is None else found[0].payload


def tokens_for(output, *, taken=0):
    def place(quote):
        account = Account("a", tokens=quote.input_tokens + output + taken)
        return account, Balance(Amount(tokens=taken))

    return place


def dollars_for(output):
    def place(quote):
        most = quote.tariff.most(quote.input_tokens, output)
        return Account("a", nanodollars=most + 7), Balance(held=Amount(nanodollars=7))

    return place


@pytest.mark.parametrize(
    ("places", "left"),
    [
        pytest.param([tokens_for(40)], 40, id="tokens"),
        pytest.param([tokens_for(40, taken=30)], 40, id="of-those-that-are-left"),
        pytest.param([dollars_for(33)], 33, id="dollars"),
        pytest.param([dollars_for(33), tokens_for(22)], 22, id="the-tighter-one"),
        pytest.param([tokens_for(10)], 10, id="exactly-the-fewest"),
    ],
)
def test_an_answer_is_cut_down_to_what_fits(places, left):
    assert shortened(*places)["max_tokens"] == left


@pytest.mark.parametrize(
    ("place", "more"),
    [
        pytest.param(tokens_for(9), {}, id="too-few"),
        pytest.param(tokens_for(-50), {}, id="not-even-the-input"),
        pytest.param(tokens_for(100), {}, id="no-shorter-than-it-is"),
        pytest.param(tokens_for(40), {"downgrade": Downgrade(model="small")}, id="not-allowed"),
        pytest.param(
            lambda quote: (Account("a", requests=1), Balance(Amount(requests=1))), {}, id="requests"
        ),
        pytest.param(
            tokens_for(40), {"thinking": {"type": "enabled", "budget_tokens": 40}}, id="thoughts"
        ),
    ],
)
def test_an_answer_that_would_be_too_short_is_not_cut(place, more):
    assert shortened(place, **more) is None


def test_an_answer_stays_longer_than_its_thoughts():
    given = {"thinking": {"type": "enabled", "budget_tokens": 39}}

    assert shortened(tokens_for(40), **given)["max_tokens"] == 40


def test_each_choice_gets_its_share():
    given = {"path": "/v1/chat/completions", "n": 3, "max_completion_tokens": 100}

    cut = shortened(tokens_for(100), max_tokens=None, **given)

    assert cut["max_completion_tokens"] == 33


def test_responses_have_a_fewest_of_their_own():
    given = {"path": "/v1/responses", "input": "Hello", "max_output_tokens": 100}

    assert shortened(tokens_for(15), **given) is None
    assert shortened(tokens_for(16), **given)["max_output_tokens"] == 16


def test_another_model_is_asked_once():
    call = a_call(payload={"model": "mine", "max_tokens": 5, "messages": MESSAGES})

    edited, quote = cheaper(call, QUOTES, Downgrade(model="small"), is_priced=True)

    assert edited.payload == {"model": "small", "max_tokens": 5, "messages": MESSAGES}
    assert quote.tariff is not None
    assert cheaper(edited, QUOTES, Downgrade(model="small"), is_priced=True) is None
    assert cheaper(call, QUOTES, CUT, is_priced=True) is None
