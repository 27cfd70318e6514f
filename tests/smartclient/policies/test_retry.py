"""What is sent again, when, and how often."""

from __future__ import annotations

import msgspec
import pytest
from tenacity.stop import stop_after_delay, stop_before_delay
from tenacity.wait import wait_fixed

from smartclient._call import Headers
from smartclient._errors import ExchangeError
from smartclient._flow import Close, Exchange, Peek, Sleep, exchange
from smartclient.policies.retry import Retry, retry_after
from smartclient.testing import OVERLOADED, RATE_LIMITED, ManualClock, a_call, a_reply, play
from smartclient.wire import Failure

AUTHENTICATION = Failure(kind="authentication", message="no")
NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT


def retry(*, wait: float = 2.0, **options):
    return Retry(clock=ManualClock(NOW), wait=lambda state: wait, wait_jitter=0.0, **options)


def an_error(kind="connect", sent="nothing"):
    return ExchangeError("it broke", kind=kind, sent=sent)


def test_overloaded_reply_is_closed_before_the_wait():
    """A reply we give up on must not hold its connection while we sleep."""
    call, busy, ok = a_call(), a_reply(529), a_reply(200)

    answers = [busy, OVERLOADED, None, None, ok, None]
    reply, asked = play(retry(wait=2.0).flow(call, exchange), answers)

    assert reply is ok
    assert asked == [Exchange(call), Peek(busy), Close(busy), Sleep(2.0), Exchange(call), Peek(ok)]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"retry_after": "7"}, 7.0, id="seconds"),
        pytest.param({"retry_after_ms": "250"}, 0.25, id="milliseconds"),
        pytest.param({"retry_after_ms": "250", "retry_after": "7"}, 0.25, id="finer-wins"),
        pytest.param({"retry_after": "soon"}, 2.0, id="unreadable-falls-back"),
        pytest.param({"retry_after": "-5"}, 2.0, id="negative-falls-back"),
        pytest.param({"retry_after": "60"}, 60.0, id="exactly-the-longest"),
        pytest.param({"retry_after": "0"}, 2.0, id="none-at-all-is-our-own"),
        pytest.param(
            {"retry_after": "Sun, 06 Nov 1994 08:49:36 GMT"}, 2.0, id="past-date-is-our-own"
        ),
    ],
)
def test_wait_follows_the_server(headers, seconds):
    flow = retry(wait=2.0).flow(a_call(), exchange)

    _, asked = play(flow, [a_reply(429, **headers), RATE_LIMITED, None, None, a_reply(), None])

    assert asked[3] == Sleep(seconds)


@pytest.mark.parametrize(
    ("stop", "attempts"),
    [
        pytest.param(stop_after_delay(4.0), 2, id="after-its-time"),
        pytest.param(stop_after_delay(4.5), 3, id="not-yet-after-its-time"),
        pytest.param(stop_before_delay(4.0), 1, id="the-wait-would-pass-it"),
        pytest.param(stop_before_delay(4.5), 2, id="the-wait-fits-in-once"),
    ],
)
def test_a_stop_by_time_goes_by_the_clock(stop, attempts):
    clock = ManualClock()

    def two_seconds(call):
        clock.advance(2.0)
        raise an_error()
        yield

    policy = Retry(clock=clock, stop=stop, wait=wait_fixed(2.0))

    with pytest.raises(ExchangeError):
        play(policy.flow(a_call(), two_seconds), [None] * (attempts - 1))


def test_a_wait_beyond_the_longest_ends_the_retries_at_once():
    """The caller learns of it now (openai-python PR#3555)."""
    busy = a_reply(429, retry_after="61")

    reply, asked = play(retry().flow(a_call(), exchange), [busy, RATE_LIMITED])

    assert reply is busy
    assert len(asked) == 2


def test_jitter_is_added_above_what_the_server_asked_for():
    policy = Retry(clock=ManualClock(), wait_jitter=0.5)
    answers = [a_reply(429, retry_after="10"), RATE_LIMITED, None, None, a_reply(), None]

    _, asked = play(policy.flow(a_call(), exchange), answers)

    assert 10.0 <= asked[3].seconds <= 15.0


def test_an_sdk_s_own_count_goes_on_over_our_attempts():
    """It sees one attempt only, and would tell the server 0 each time."""
    sent = Headers([("X-Stainless-Retry-Count", "0"), ("a", "b")])
    call = msgspec.structs.replace(a_call(), headers=sent)
    answers = [a_reply(529), OVERLOADED, None, None] * 2 + [a_reply(), None]

    _, asked = play(retry().flow(call, exchange), answers)

    calls = [effect.call for effect in asked if isinstance(effect, Exchange)]
    assert [one.headers.all("x-stainless-retry-count") for one in calls] == [["0"], ["1"], ["2"]]
    assert [one.headers.get("a") for one in calls] == ["b"] * 3


def test_a_refused_credential_that_can_be_renewed_is_asked_with_once_more():
    """Whatever the server says about retries: it knows of the refused one only."""
    call = msgspec.structs.replace(a_call(), is_renewable=True)
    refused = [a_reply(401, x_should_retry="false") for _ in range(2)]
    answers = [refused[0], AUTHENTICATION, None, None, refused[1], AUTHENTICATION]

    reply, asked = play(retry(wait=2.0).flow(call, exchange), answers)

    assert reply is refused[1]
    assert [one for one in asked if isinstance(one, Exchange)] == [Exchange(call)] * 2


@pytest.mark.parametrize(
    ("is_renewable", "limit"), [(False, None), (True, 0)], ids=["kept-by-nobody", "no-retries"]
)
def test_a_refused_credential_is_not_asked_with_again(is_renewable, limit):
    call = msgspec.structs.replace(a_call(), is_renewable=is_renewable, max_retries=limit)

    _, asked = play(retry().flow(call, exchange), [a_reply(401), AUTHENTICATION])

    assert len(asked) == 2


def test_a_reply_that_is_given_up_on_is_returned_unclosed():
    last = a_reply(529)
    answers = [a_reply(529), OVERLOADED, None, None, last, OVERLOADED]

    reply, asked = play(retry(max_retries=1).flow(a_call(), exchange), answers)

    assert reply is last
    assert asked[-1] == Peek(last)


def test_a_calls_own_limit_comes_first():
    busy = a_reply(529)

    reply, _ = play(retry().flow(a_call(max_retries=0), exchange), [busy, OVERLOADED])

    assert reply is busy


@pytest.mark.parametrize(
    ("verdict", "failure", "attempts"),
    [
        pytest.param("false", RATE_LIMITED, 1, id="false-on-429"),
        pytest.param("true", Failure(kind="invalid", status=400), 2, id="true-on-400"),
        pytest.param("maybe", Failure(kind="invalid", status=400), 1, id="unknown-word"),
    ],
)
def test_the_servers_verdict_is_obeyed(verdict, failure, attempts):
    first = a_reply(429, x_should_retry=verdict)
    more = [None, None, a_reply(), None] if attempts == 2 else []

    _, asked = play(retry().flow(a_call(), exchange), [first, failure, *more])

    assert asked.count(Exchange(asked[0].call)) == attempts


def test_a_verdict_of_true_never_beats_the_limit():
    busy = a_reply(500, x_should_retry="true")
    failure = Failure(kind="server", status=500, is_transient=True)

    reply, _ = play(retry(max_retries=0).flow(a_call(), exchange), [busy, failure])

    assert reply is busy


def test_money_that_ran_out_is_not_asked_for_again():
    broke = a_reply(429)

    reply, asked = play(
        retry().flow(a_call(), exchange), [broke, Failure(kind="money", status=429)]
    )

    assert reply is broke
    assert len(asked) == 2


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(an_error("connect"), id="refused"),
        pytest.param(an_error("connect_timeout"), id="connect-timeout"),
        pytest.param(an_error("resolve"), id="no-address"),
        pytest.param(an_error("tls"), id="handshake"),
        pytest.param(an_error("write", "part"), id="half-written"),
        pytest.param(an_error("closed", "all"), id="closed-after-the-write"),
    ],
)
def test_a_failed_exchange_is_tried_again(error):
    ok = a_reply()

    reply, asked = play(retry(wait=1.0).flow(a_call(), exchange), [error, None, ok, None])

    assert reply is ok
    assert asked[1] == Sleep(1.0)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(an_error("certificate"), id="bad-certificate"),
        pytest.param(an_error("proxy"), id="refused-by-a-proxy"),
        pytest.param(an_error("pool_timeout"), id="pool-full"),
        pytest.param(an_error("protocol", "all"), id="garbage"),
        pytest.param(an_error("limit", "all"), id="too-long"),
        pytest.param(an_error("read_timeout", "all"), id="no-answer-in-time"),
    ],
)
def test_what_a_retry_cannot_mend_reaches_the_caller(error):
    with pytest.raises(ExchangeError) as caught:
        play(retry().flow(a_call(), exchange), [error])

    assert caught.value is error


def test_a_call_that_may_have_been_processed_is_sent_again_once_only():
    """The provider may charge for each (openai-python sends no idempotency key)."""
    second = an_error("closed", "all")

    with pytest.raises(ExchangeError) as caught:
        play(retry().flow(a_call(), exchange), [an_error("closed", "all"), None, second])

    assert caught.value is second


def test_resending_can_be_turned_off():
    error = an_error("closed", "all")

    with pytest.raises(ExchangeError):
        play(retry(resend=False).flow(a_call(), exchange), [error])


def test_a_read_timeout_is_sent_again_when_asked():
    ok = a_reply()
    policy = retry(resend_after_timeout=True)

    reply, _ = play(
        policy.flow(a_call(), exchange), [an_error("read_timeout", "all"), None, ok, None]
    )

    assert reply is ok


def test_a_body_that_can_be_read_once_is_not_sent_twice():
    busy = a_reply(529)

    reply, _ = play(retry().flow(a_call(body=iter([b"x"])), exchange), [busy, OVERLOADED])

    assert reply is busy


def test_nor_when_its_connection_broke():
    error = an_error("closed", "part")

    with pytest.raises(ExchangeError):
        play(retry().flow(a_call(body=iter([b"x"])), exchange), [error])


def test_it_is_sent_again_when_nothing_of_it_was_read():
    ok = a_reply()
    flow = retry().flow(a_call(body=iter([b"x"])), exchange)

    reply, _ = play(flow, [an_error("connect"), None, ok, None])

    assert reply is ok


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param("7", 7.0, id="seconds"),
        pytest.param("1.5", 1.5, id="decimals"),
        pytest.param("0", 0.0, id="zero"),
        pytest.param(" 7\t", 7.0, id="white-space-around"),
        pytest.param("-5", None, id="negative"),
        pytest.param("+5", None, id="sign"),
        pytest.param("nan", None, id="nan"),
        pytest.param("inf", None, id="inf"),
        pytest.param("1e3", None, id="exponent"),
        pytest.param("9" * 400, None, id="overflows"),
        pytest.param("\u0663", None, id="arabic-digit"),
        pytest.param("", None, id="empty"),
        pytest.param("soon", None, id="word"),
        pytest.param("100000", 100_000.0, id="never-capped"),
        pytest.param("Sun, 06 Nov 1994 08:49:47 GMT", 10.0, id="imf-fixdate"),
        pytest.param("Sunday, 06-Nov-94 08:49:47 GMT", 10.0, id="rfc-850"),
        pytest.param("Sun Nov  6 08:49:47 1994", 10.0, id="asctime"),
        pytest.param("Sun, 06 Nov 1990 08:49:37 GMT", 0.0, id="past"),
        pytest.param("Sun, 06 Nov 99999 08:49:37 GMT", None, id="year-99999"),
        pytest.param("Sun, 31 Feb 1995 08:49:37 GMT", None, id="no-such-day"),
        pytest.param("Sun, 06 Nov 1994 25:00:00 GMT", None, id="no-such-hour"),
    ],
)
def test_retry_after_reads(value, seconds):
    assert retry_after({"Retry-After": value}, now=NOW) == seconds


def test_the_last_second_of_the_year_9999_can_be_read():
    assert retry_after({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, now=0.0) == 253402300799.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"RETRY-AFTER-MS": "250", "retry-after": "7"}, 0.25, id="ms-wins"),
        pytest.param({"retry-after-ms": "-1", "retry-after": "7"}, 7.0, id="bad-ms-falls-through"),
        pytest.param({}, None, id="absent"),
    ],
)
def test_retry_after_ms_comes_first(headers, seconds):
    assert retry_after(headers, now=NOW) == seconds
    assert retry_after(Headers(headers), now=NOW) == seconds


@pytest.mark.parametrize(
    "options", [{"max_wait": -1.0}, {"wait_jitter": -0.1}], ids=["max-wait", "jitter"]
)
def test_limits_below_zero_are_refused(options):
    with pytest.raises(ValueError, match="at least 0"):
        Retry(clock=ManualClock(), **options)


ENDED_EARLY = Failure(kind="incomplete", message="no content", is_transient=True)


@pytest.mark.parametrize(
    ("options", "attempts"),
    [
        pytest.param({}, 2, id="once-more"),
        pytest.param({"resend": False}, 1, id="resend-off"),
        pytest.param({"max_retries": 0}, 1, id="no-retries"),
    ],
)
def test_a_stream_that_ended_before_any_content_is_sent_again_once(options, attempts):
    """The server may have done the work, as when the connection breaks there."""
    last = a_reply(200)
    first = [a_reply(200), ENDED_EARLY, None, None] if attempts == 2 else []

    reply, asked = play(retry(**options).flow(a_call(), exchange), [*first, last, ENDED_EARLY])

    assert reply is last
    assert asked.count(Peek(last)) == 1
