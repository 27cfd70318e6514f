"""A boilerplate report, as text and as values."""

from __future__ import annotations

import json
from decimal import Decimal

from smartclient.tokens import BoilerplateReport, Repeated


def a_row(**given):
    given = {
        "kind": "system", "model": "gpt-4o", "path": "system", "digest": "00ff",
        "excerpt": "You answer letters", "tokens": 8_112, "num_sent": 1_200,
        "dollars_per_day": Decimal("12.3449"), **given,
    }  # fmt: skip
    return Repeated(**given)


def a_report(*repeated, **given):
    given = {
        "num_requests": 1_200, "num_skipped": 0, "period": 86_400.0, "tokens": 20_000_000,
        "history_tokens": 2_000_000, "num_forgotten": 0, **given,
    }  # fmt: skip
    return BoilerplateReport(repeated=repeated, **given)


def test_it_reads_as_a_table():
    shown = str(a_report(a_row(obstacle="what is before it varies, at tools[0]"))).splitlines()

    assert shown == [
        "1,200 requests in 24.0 hours, 20,000,000 input tokens: "
        "49 % repeated text, 10 % earlier turns sent again",
        "    $/day if cached    tokens     sent where                    text",
        "    12.34   unknown     8,112    1,200 system                   You answer letters",
        f"{'':42}not cached: what is before it varies, at tools[0]",
    ]


def test_a_long_one_is_cut_short():
    shown = str(a_report(*[a_row()] * 25))

    assert shown.endswith("and 5 more")


def test_a_text_without_an_excerpt_shows_its_digest():
    assert "00ff" in str(a_report(a_row(excerpt="")))


def test_forgotten_texts_are_told():
    assert "7 texts were forgotten: give a larger size" in str(a_report(num_forgotten=7))


def test_nothing_is_a_report_too():
    shown = str(a_report(num_requests=0, tokens=0, history_tokens=0, period=None))

    assert shown == "0 requests, 0 input tokens: 0 % repeated text, 0 % earlier turns sent again"


def test_a_day_has_as_many_tokens_as_its_share_of_the_period():
    assert a_report(period=43_200.0).tokens_per_day == 40_000_000
    assert a_report(period=None).tokens_per_day is None


def test_its_values_are_json():
    found = json.loads(json.dumps(a_report(a_row()).to_dict()))

    assert found["repeated"][0]["dollars_per_day"] == "12.3449"
    assert found["repeated"][0]["path"] == "system"
