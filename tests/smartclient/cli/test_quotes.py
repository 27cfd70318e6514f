"""What requests would cost: counted, priced and cached by each model's own rules."""

from __future__ import annotations

from decimal import Decimal

import pytest

from smartclient.catalog import builtin, cost
from smartclient.cli.parts import parts_of
from smartclient.cli.quotes import Asked, quotes
from smartclient.cli.requests import WrittenRequest
from smartclient.tokens import count
from smartclient.wire import Usage
from tests.smartclient.cli.written import ASKED, TOOLS, a_claude

LONG = "You are a patient teacher who answers in short sentences. " * 300


def written(body, **fields):
    usual = {"place": "f", "body": body, "endpoint": "anthropic.messages", "max_output": 100}
    return WrittenRequest(**usual | fields)


def quoted(model, *requests, catalog=None, **asked):
    facts = (catalog or builtin()).model(model)
    [one] = quotes([facts], requests, Asked(**asked))
    return one


def dollars(model, **usage):
    return cost(Usage(**usage), builtin().model(model)).total


def counted(body, model):
    return count(body, model=model, endpoint="anthropic.messages")


def prefix(body, model):
    parts = parts_of(body, "anthropic.messages", lambda part: counted(part, model))
    return parts.get("tools", 0) + parts.get("system", 0)


BODY = a_claude(system=LONG, tools=TOOLS)


def test_input_is_priced_at_the_middle_and_at_the_top():
    one, tokens = quoted("claude-opus-5", written(BODY)), counted(BODY, "claude-opus-5")

    assert (one.p05, one.p50, one.p95) == (tokens.p05, tokens.p50, tokens.p95)
    assert one.input_p50 == Decimal(tokens.p50) * 5 / 10**6
    assert one.input_p95 == Decimal(tokens.p95) * 5 / 10**6
    assert one.output == Decimal("0.0025")
    assert one.total == one.input_p50 + one.output


def test_the_first_call_writes_what_calls_share_and_later_ones_read_it():
    one = quoted("claude-opus-5", written(BODY), calls=100)

    whole, kept = one.p50, prefix(BODY, "claude-opus-5")
    rest = {"uncached": whole - kept, "output": 100}
    first = dollars("claude-opus-5", cache_write={"5m": kept}, **rest)
    later = dollars("claude-opus-5", cache_read=kept, **rest)
    assert one.cached == first + 99 * later < one.total
    assert one.cached_tokens == 99 * kept


def test_requests_with_one_prefix_share_it_whichever_asks_first():
    other = BODY | {"messages": [{"role": "user", "content": "And the sea?"}]}

    one = quoted("claude-opus-5", written(BODY), written(other), written(BODY))

    assert one.cached_tokens == 2 * prefix(BODY, "claude-opus-5")
    twice = quoted("claude-opus-5", written(BODY), written(BODY), written(BODY))
    assert twice.cached == quoted("claude-opus-5", written(BODY), calls=3).cached


def test_what_nobody_shares_is_not_written():
    one = quoted("claude-opus-5", written(BODY), written(BODY | {"system": f"Now: {LONG}"}))

    assert (one.cached, one.cached_tokens) == (one.total, 0)


def test_a_model_that_caches_by_itself_reads_in_steps_and_writes_for_nothing():
    one, kept = quoted("gpt-5.1", written(BODY), calls=2), prefix(BODY, "gpt-5.1")

    read = kept // 128 * 128
    later = dollars("gpt-5.1", uncached=one.p50 - read, cache_read=read, output=100)
    assert one.cached_tokens == read < kept
    assert one.cached == one.total / 2 + later


def test_all_of_a_request_can_be_shared():
    one = quoted("claude-opus-5", written(BODY), calls=2, shared="all")

    assert one.cached_tokens == one.p50


@pytest.mark.parametrize(
    ("model", "fields", "remark"),
    [
        pytest.param("claude-haiku-4-5", {"system": "Hi. " * 50}, "not cached below 4,096 tokens",
                     id="too-short"),
        pytest.param("claude-fable-5-2", {"system": LONG}, "shortest cached prefix unknown",
                     id="no-minimum"),
        pytest.param("claude-opus-5", {"temperature": 1}, "refuses temperature", id="refuses"),
        pytest.param("claude-opus-4-5", {}, "retires 2027-01-22", id="retires"),
    ],
)  # fmt: skip
def test_what_else_to_know_is_remarked(model, fields, remark):
    one = quoted(model, written(a_claude(**fields)), calls=2)

    assert remark in one.remarks
    assert one.total is not None


@pytest.mark.parametrize(
    ("today", "remark"),
    [("2027-01-22", "retires 2027-01-22"), ("2027-01-23", "retired 2027-01-22")],
)
def test_a_model_that_is_gone_is_told_to_be(today, remark):
    assert remark in quoted("claude-opus-4-5", written(BODY), today=today).remarks


@pytest.mark.parametrize("model", ["gpt-6.2-astra", "gpt-5.5-cyber"])
def test_a_cache_of_unknown_price_leaves_the_rest_known(model):
    one = quoted(model, written(BODY), calls=2)

    assert (one.cached, one.total is None) == (None, False)
    assert any("unknown" in remark for remark in one.remarks)


def test_an_unknown_price_is_unknown_and_never_nothing():
    theirs = builtin().override({"ours": {"context_window": 1000}})

    one = quoted("ours", written(BODY), catalog=theirs, calls=2)

    assert (one.input_p50, one.input_p95, one.output, one.total, one.cached) == (None,) * 5


@pytest.mark.parametrize(
    ("window", "output", "remark"),
    [
        pytest.param(20, 0, "does not fit: window of 20", id="input"),
        pytest.param(1_000_000, 999_999, "does not fit: window of 1,000,000", id="with-output"),
        pytest.param(1_000_000, 999_960, "may not fit: window of 1,000,000", id="at-the-top"),
    ],
)
def test_a_window_that_is_too_small_is_marked(window, output, remark):
    mine = builtin().override({"claude-opus-5": {"context_window": window}})
    body = a_claude(messages=[*ASKED] * 3)
    tokens = counted(body, "claude-opus-5")
    assert tokens.p50 < 40 < tokens.p95 + 1

    one = quoted("claude-opus-5", written(body), catalog=mine, output=output)

    assert remark in one.remarks


def test_a_longer_answer_than_the_model_gives_is_marked():
    one = quoted("claude-opus-4-5", written(a_claude()), output=70_000)

    assert "answers at most 64,000 tokens" in one.remarks


def test_a_long_request_has_its_own_price():
    one = quoted("gpt-5.6-sol", written("word " * 300_000, endpoint="text"))

    assert "dearer above 272,000 tokens" in one.remarks
    assert one.input_p50 > Decimal(one.p50) * 4 / 10**6


def test_a_batch_has_its_prices_unless_it_is_told_otherwise():
    plain, batch = written(a_claude()), written(a_claude(), is_batch=True)

    usual = quoted("claude-opus-5", plain).total

    assert quoted("claude-opus-5", batch).total == usual / 2
    assert quoted("claude-opus-5", plain, is_batch=True).total == usual / 2


def test_without_a_limit_there_is_no_price_of_the_output():
    one = quoted("claude-opus-5", written(a_claude(), max_output=None))

    assert (one.output_tokens, one.output, one.total) == (None, None, one.input_p50)
