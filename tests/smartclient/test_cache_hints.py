"""What a user can say about cache hints."""

from __future__ import annotations

import pytest

from smartclient import Settings
from smartclient._cache_hints import CacheHints, hints_of


@pytest.mark.parametrize(
    ("fields", "error", "told"),
    [
        ({"mode": "bold"}, ValueError, "mode must be"),
        ({"static": ("prompt",)}, ValueError, "static must name tools, system, not"),
        ({"static": ("messages",)}, ValueError, "static must name tools, system, not"),
        ({"static": "system"}, TypeError, "static must be a tuple"),
        ({"ttls": ()}, ValueError, "at least one"),
        ({"ttls": "5m"}, TypeError, "ttls must be a tuple"),
        ({"single_flight": 0}, ValueError, "above 0 s"),
        ({"single_flight": 601}, ValueError, "at most 600"),
        ({"single_flight": float("nan")}, ValueError, "above 0 s"),
        ({"single_flight": True}, TypeError, "seconds, not bool"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_given(fields, error, told):
    with pytest.raises(error, match=told):
        CacheHints(**fields)


@pytest.mark.parametrize("off", [None, False, "off"])
def test_one_setting_turns_hints_off(off):
    assert Settings(cache_hints=off).cache_hints is None


@pytest.mark.parametrize(
    ("given", "mode"),
    [(True, "cautious"), ("cautious", "cautious"), ("full", "full")],
)
def test_a_word_is_a_mode(given, mode):
    assert hints_of(Settings(cache_hints=given).cache_hints) == CacheHints(mode=mode)


def test_hints_are_taken_as_they_are():
    hints = CacheHints(mode="full", single_flight=5.0)

    assert hints_of(Settings(cache_hints=hints).cache_hints) is hints


@pytest.mark.parametrize(
    ("given", "error"), [("always", ValueError), (1.5, TypeError), ({"mode": "full"}, TypeError)]
)
def test_no_other_setting_is_taken(given, error):
    with pytest.raises(error, match="cache_hints must be"):
        Settings(cache_hints=given)
