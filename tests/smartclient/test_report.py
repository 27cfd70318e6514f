"""What a report says, and how it reads."""

from __future__ import annotations

import json
import weakref
from decimal import Decimal

import pytest

from smartclient._call import Attempt, Span, Timeline
from smartclient.catalog import Cost
from smartclient.report import (
    CacheReport,
    CallReport,
    Later,
    Stage,
    attempt_report,
    server_stages,
    timeline_stages,
)
from smartclient.wire import Served, Usage


def a_report(**facts):
    ordinary = {
        "provider": "anthropic",
        "model": "tiny",
        "endpoint": "POST /v1/messages",
        "status": 200,
        "duration": 2.0,
        "stages": {"send": Stage(0.0, 0.5), "ttft": Stage(0.0, 1.0), "decode": Stage(1.0, 1.0)},
    }
    return CallReport(**(ordinary | facts))


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        pytest.param("queue;dur=2", {"queue": Stage(0.0, 0.002)}, id="one"),
        pytest.param(
            "gateway;dur=1, prefill;dur=3",
            {"gateway": Stage(0.0, 0.001), "prefill": Stage(0.001, 0.003)},
            id="each-begins-where-the-last-ended",
        ),
        pytest.param("decode;start=500;dur=250", {"decode": Stage(0.5, 0.25)}, id="own-start"),
        pytest.param('a;desc="x";dur=1000', {"a": Stage(0.0, 1.0)}, id="other-parameters"),
        pytest.param("a;dur=soon, b, ;dur=1, c;dur=-1, d;start=-1;dur=1", {}, id="unreadable"),
        pytest.param("", {}, id="empty"),
    ],
)
def test_server_timing_is_read(text, stages):
    assert server_stages(text) == pytest.approx(stages)


@pytest.mark.parametrize("value", ["nan", "inf", "1e400"])
def test_a_time_that_is_no_number_is_passed_over(value):
    """It would end up in sums, and in JSON."""
    assert server_stages(f"a;dur={value}, b;start={value};dur=1") == {}


def test_a_connections_stages_count_from_the_start_of_the_call():
    timeline = Timeline(tcp=Span(11.0, 12.0), send=Span(12.0, 12.5))

    assert timeline_stages(timeline, since=10.0) == {
        "tcp": Stage(1.0, 1.0),
        "send": Stage(2.0, 0.5),
    }


def test_a_connection_that_was_open_cost_nothing():
    timeline = Timeline(send=Span(11.0, 12.0), reused=True)

    stages = timeline_stages(timeline, since=10.0)

    assert stages["tcp"] == stages["tls"] == stages["dns"] == Stage(1.0, 0.0)


def test_an_attempt_without_an_end_took_no_time():
    told = attempt_report(Attempt(1, "http://a:1", 3.0, Timeline()), since=1.0, server={})

    assert (told.start, told.duration, told.status) == (2.0, 0.0, None)


def test_an_attempt_tells_its_servers_stages():
    attempt = Attempt(2, "http://a:1", 3.0, Timeline(), status=200, ended=4.0)

    told = attempt_report(attempt, since=1.0, server={"queue": Stage(2.0, 0.5)})

    assert (told.number, told.duration, told.stages) == (2, 1.0, {"queue": Stage(2.0, 0.5)})


def test_a_report_is_plain_values():
    plain = a_report(usage=Usage(uncached=1)).to_dict()

    assert json.loads(json.dumps(plain))["usage"]["uncached"] == 1
    assert plain["stages"]["send"] == {"start": 0.0, "duration": 0.5}


def test_dollars_in_a_plain_report_are_numbers():
    cost = Cost(model="m", total=Decimal("0.1"), cache_write={"5m": Decimal("0.05")})
    attempt = attempt_report(
        Attempt(1, "http://a:1", 0.0, Timeline(), status=200, usage=Usage(uncached=1, output=1)),
        since=0.0,
        server={},
        priced=cost,
    )
    report = a_report(attempts=[attempt], cost=0.1, cache=CacheReport(savings=-0.5))

    plain = json.loads(json.dumps(report.to_dict()))

    assert report.exact_cost == Decimal("0.1")
    assert plain["attempts"][0]["priced"]["total"] == plain["cost"] == 0.1
    assert plain["attempts"][0]["priced"]["cache_write"] == {"5m": 0.05}
    assert (plain["cache"]["savings"], plain["tags"]) == (-0.5, [])


def test_an_attempt_says_how_it_was_served():
    asked, served = Served(service_tier="auto", geo="us"), Served(service_tier="flex")
    attempt = Attempt(1, "http://a:1", 0.0, Timeline(), model="m", asked=asked)

    assert attempt_report(attempt, since=0.0, server={}).served is asked
    attempt.served = served
    told = attempt_report(attempt, since=0.0, server={})

    assert (told.model, told.served) == ("m", Served(service_tier="flex", geo="us"))


def test_the_waterfall_draws_each_stage_where_it_was():
    lines = str(a_report(reused=True, protocol="HTTP/1.1")).splitlines()

    assert lines[0] == "POST /v1/messages  tiny  200  2,000.0 ms"
    assert lines[1] == "  0 attempts, reused connection, HTTP/1.1"
    assert lines[2].startswith("  send     ▇▇▇")
    assert lines[2].endswith("500.0 ms")
    assert lines[4][11 + 27] == "▇"
    assert lines[4][11 + 26] == " "


def test_a_stage_that_took_no_time_is_a_dot():
    assert "·" in a_report(stages={"dns": Stage(1.0, 0.0)}).waterfall()


def test_no_line_is_wider_than_asked():
    report = a_report(stages={"send": Stage(0.0, 0.5), "decode": Stage(1.99, 0.01)})

    assert max(len(line) for line in report.waterfall(60).splitlines()[2:]) <= 60


def test_the_totals_name_tokens_by_what_they_cost():
    usage = Usage(uncached=1200, cache_read=0, cache_write={"5m": 3, "1h": 4}, output=5)

    lines = a_report(ttft=0.5, itl_p50=0.01, usage=usage).waterfall().splitlines()

    assert lines[-2] == "  first token after 500.0 ms, gaps 10.0 ms (median)"
    assert lines[-1] == (
        "  tokens: 1,200 uncached, 0 read from cache, 7 written to cache, 5 output"
    )


READ = Usage(uncached=892, cache_read=8112, cache_write={}, output=5)


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        pytest.param(
            {"usage": READ, "cost": 0.0132},
            "  $0.0132 (read from cache 8,112 of 9,004 tokens)",
            id="cost",
        ),
        pytest.param(
            {"usage": Usage(uncached=3, output=1), "cost": 0.2},
            "  $0.2000",
            id="nothing-known-of-the-cache",
        ),
        pytest.param(
            {"usage": READ, "cost_missing": ("prices of 'm'",)},
            "  cost unknown, for want of prices of 'm'",
            id="unknown",
        ),
        pytest.param(
            {"usage": READ, "cost_missing": ("final output tokens",), "cost_at_least": 0.01},
            "  cost unknown, for want of final output tokens; at least $0.0100",
            id="at-least",
        ),
        pytest.param(
            {"ttft": 0.5, "cost_missing": ("usage",)},
            "  cost unknown, for want of usage",
            id="a-stream-that-told-no-tokens",
        ),
        pytest.param(
            {"cache": CacheReport(miss="prefix_drift", why="tools[3] moved; 8,112 tokens")},
            "  cache miss: tools[3] moved; 8,112 tokens",
            id="why",
        ),
        pytest.param({"cache": CacheReport(miss="expired")}, "  cache miss: expired", id="miss"),
        pytest.param(
            {"budget_left": {"app": {"dollars": 3.2, "tokens": 1000.0}}},
            "  budget app: $3.2000, 1,000 tokens left",
            id="budget",
        ),
    ],
)
def test_money_cache_and_budgets_are_the_last_lines(facts, line):
    assert a_report(**facts).waterfall().splitlines()[-1] == line


def test_without_a_miss_the_cache_has_no_line():
    assert a_report(cache=CacheReport(actual_read=5)).waterfall() == a_report().waterfall()


def test_a_call_without_tokens_says_nothing_of_money():
    assert a_report(cost_missing=("usage",)).waterfall() == a_report().waterfall()


def test_what_is_unknown_is_left_out_of_the_picture():
    report = CallReport(provider=None, model=None, endpoint="POST /x", ttft=12.0)

    assert report.waterfall() == "POST /x    \n  0 attempts\n  first token after 12.0 s"


def test_a_failure_stands_in_the_place_of_the_status():
    assert "  connect  " in a_report(error="connect").waterfall().splitlines()[0]


def test_report_that_two_threads_ask_for_is_one():
    def make() -> CallReport:
        if not made:
            made.append(a_report())
            made.append(later.get())  # the other thread, which is faster
        return a_report()

    made: list[CallReport] = []
    later = Later(make)

    assert later.get() is made[1] is later.get()


def test_report_once_made_keeps_nothing_that_it_was_made_of():
    class Ingredient:
        """Such as a connection's timeline."""

    ingredient = Ingredient()
    watched = weakref.ref(ingredient)
    later = Later(lambda kept=ingredient: a_report())
    del ingredient

    later.get()

    assert watched() is None
