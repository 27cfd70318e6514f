"""What a call came to."""

from __future__ import annotations

import pytest

from smartclient import catalog
from smartclient._call import Attempt, Origin, Span, Timeline
from smartclient.budgets.bill import NOTHING, Heard, bill
from smartclient.budgets.quote import Quote
from smartclient.budgets.tariff import tariff_of
from smartclient.stores import Amount
from smartclient.wire import Delta, Failure, Served, Usage

PRICES = {"input": 1, "output": 10, "cache_read": 0.1, "cache_write": {"5m": 2}}
TARIFF = tariff_of(catalog.override({"mine": {"prices": PRICES}}).model("mine"))
MOST = Amount(requests=1, tokens=150, nanodollars=100 * 2_000 + 50 * 10_000)
QUOTE = Quote(MOST, input_tokens=100, output_tokens=50, tariff=TARIFF)
USED = Usage(uncached=80, output=5)
CUT = Usage(uncached=80, output=1, is_final=False)
FAILED = Delta(failure=Failure(kind="overloaded"))


def an_attempt(status=200, *, written=True, **facts):
    timeline = Timeline(send=Span(0.0, 1.0) if written else None)
    return Attempt(1, Origin("http", "a", 80), 0.0, timeline, status=status, **facts)


def heard(*deltas):
    found = Heard()
    for delta in deltas:
        found.note(delta)
    return found


def billed(*attempts, told=None, quote=QUOTE, tariff=None):
    return bill(attempts, quote, heard() if told is None else told, lambda attempt: tariff)


def test_a_reply_costs_what_it_tells():
    usage = Usage(uncached=10, cache_read=60, cache_write={"5m": 5}, output=5)

    assert billed(an_attempt(usage=usage)) == Amount(
        requests=1, tokens=80, nanodollars=10_000 + 60 * 100 + 5 * 2_000 + 5 * 10_000
    )


def test_it_is_priced_as_it_was_served():
    dear = tariff_of(catalog.override({"d": {"prices": {"input": 3, "output": 3}}}).model("d"))
    served = an_attempt(usage=USED, served=Served(service_tier="priority"))

    assert billed(served, tariff=dear).nanodollars == 85 * 3_000
    assert billed(served, tariff=None).nanodollars == billed(an_attempt(usage=USED)).nanodollars


@pytest.mark.parametrize(
    ("attempt", "told"),
    [
        pytest.param(an_attempt(400), heard(), id="refused"),
        pytest.param(an_attempt(429), heard(), id="rate-limited"),
        pytest.param(an_attempt(500), heard(), id="server-error"),
        pytest.param(an_attempt(302), heard(), id="redirected"),
        pytest.param(an_attempt(None, error="connect", written=False), None, id="no-connection"),
        pytest.param(an_attempt(None, error="refused"), None, id="not-processed"),
        pytest.param(an_attempt(None, written=False), None, id="cancelled-before-it-was-written"),
        pytest.param(an_attempt(usage=CUT), heard(FAILED), id="an-error-before-content"),
    ],
)
def test_what_nobody_charges_for_costs_nothing(attempt, told):
    assert bill([attempt], QUOTE, told, lambda attempt: None) == NOTHING


@pytest.mark.parametrize(
    ("attempt", "told"),
    [
        pytest.param(
            an_attempt(None, error="read_timeout", maybe_processed=True), None, id="no-answer"
        ),
        pytest.param(an_attempt(None), None, id="cancelled-after-it-was-written"),
        pytest.param(an_attempt(), None, id="nobody-got-to-read-it"),
        pytest.param(an_attempt(), heard(), id="usage-never-told"),
        pytest.param(
            an_attempt(), heard(Delta(has_tokens=True), FAILED), id="an-error-after-content"
        ),
        pytest.param(
            an_attempt(usage=Usage(uncached=-3, output=1, inconsistent="it is below 0")),
            heard(),
            id="usage-that-cannot-be",
        ),
    ],
)
def test_what_nobody_knows_costs_the_most(attempt, told):
    assert bill([attempt], QUOTE, told, lambda attempt: None) == MOST


@pytest.mark.parametrize(
    "usage", [CUT, Usage(uncached=80)], ids=["the-least-that-was-used", "no-output-told"]
)
def test_of_a_stream_that_was_cut_the_input_is_known_and_the_output_is_the_most(usage):
    """The first event of Anthropic's streams counts one output token, whatever comes."""
    came_to = billed(an_attempt(usage=usage))

    assert (came_to.tokens, came_to.nanodollars) == (80 + 50, 80_000 + 500_000)


def test_more_output_than_was_allowed_counts_too():
    more = Usage(uncached=80, output=70, is_final=False)

    assert billed(an_attempt(usage=more)).tokens == 150


def test_a_reply_that_tells_of_more_than_can_be_counted_costs_the_most_that_can():
    told = an_attempt(usage=Usage(uncached=2**60, output=2**60), maybe_processed=True)

    came_to = billed(told, told)

    assert came_to.tokens == came_to.nanodollars == 2**53


def test_input_that_cannot_be_told_is_as_long_as_it_may_be():
    assert billed(an_attempt(usage=Usage(output=5))).tokens == 105


def test_every_attempt_that_is_billed_adds_up_to_one_call():
    lost = an_attempt(None, error="closed", maybe_processed=True)
    busy, early = an_attempt(529), an_attempt(error="incomplete", maybe_processed=True)

    came_to = billed(lost, busy, early, an_attempt(usage=USED))

    assert came_to.requests == 1
    assert came_to.tokens == 150 + 150 + 85
    assert came_to.nanodollars == 2 * MOST.nanodollars + 80_000 + 50_000


def test_an_attempt_that_told_its_input_costs_that_and_the_longest_answer():
    early = an_attempt(error="incomplete", maybe_processed=True, usage=CUT)

    assert billed(early, an_attempt(400)).tokens == 80 + 50


def test_an_error_event_that_was_tried_again_costs_nothing():
    assert billed(an_attempt(usage=CUT), an_attempt(usage=USED)).tokens == 85


def test_without_a_limit_of_tokens_a_call_is_a_request():
    assert billed(an_attempt(usage=USED), quote=Quote()) == Amount(requests=1)
    assert billed(an_attempt(400), quote=Quote()) == NOTHING


def test_a_call_that_was_never_tried_costs_nothing():
    assert billed() == NOTHING
