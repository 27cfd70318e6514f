"""How long a reply asks to wait."""

from __future__ import annotations

import time

import pytest

from server_reference.scripted.asked import asked_wait
from server_reference.scripted.ops import End, Head
from server_reference.scripted.providers.retry_after import retry_after
from tests.server_reference.scripted.watched import Played


def replied(headers, status=429):
    played = Played()
    played.exchange(ops=(Head(status, tuple(headers.items())), End()))
    return played.watch.journal.entries()[0]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"retry-after": "7"}, 7.0, id="seconds"),
        pytest.param({"retry-after": "0"}, 0.0, id="at-once"),
        pytest.param({"retry-after": "0.25"}, 0.25, id="fraction"),
        pytest.param({"retry-after-ms": "250", "retry-after": "7"}, 0.25, id="finer-wins"),
        pytest.param({"retry-after-ms": "soon", "retry-after": "7"}, 7.0, id="falls-through"),
    ],
)
def test_numbers_are_read(headers, seconds):
    found = asked_wait(replied(headers))

    assert found is not None
    assert found[0] == seconds


@pytest.mark.parametrize("value", ["-5", "+5", "1_0", "1e3", "inf", "nan", "soon", "", "٣"])
def test_what_clients_cannot_read_asks_for_nothing(value):
    assert asked_wait(replied({"retry-after": value})) is None


@pytest.mark.parametrize("form", ["imf_fixdate", "rfc850", "asctime"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_dates_are_in_utc_wherever_the_machine_is(form, zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        found = asked_wait(replied(retry_after(5, form=form, now=100.0)))
    finally:
        monkeypatch.undo()
        time.tzset()

    assert found == (5.0, 1.0)


def test_a_date_says_nothing_to_who_has_another_clock():
    entry = replied(retry_after(5, form="imf_fixdate", now=100.0))

    assert asked_wait(entry, reads_dates=False) is None


def test_a_success_asks_for_nothing():
    assert asked_wait(replied({"retry-after": "7"}, status=200)) is None
