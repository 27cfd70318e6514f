"""Counts that are kept."""

from __future__ import annotations

from smartclient.tokens.remembered import Remembered


def test_what_was_counted_is_known():
    remembered = Remembered(10)

    remembered.put(["a", "b"], [1, 2])

    assert remembered.get(["a", "b", "c", "a"]) == (4, ["c"])


def test_an_equal_text_is_known_whoever_holds_it():
    remembered = Remembered(10)

    remembered.put(["".join(["Hel", "lo"])], [1])

    assert remembered.get(["".join(["He", "llo"])]) == (1, [])


def test_no_more_is_kept_than_was_allowed():
    remembered = Remembered(10)

    for number in range(1000):
        remembered.put([f"text {number}"], [number])

    assert len(remembered) <= 10
    assert remembered.get(["text 999", "text 1"]) == (999, ["text 1"])


def test_what_is_asked_for_stays():
    remembered = Remembered(10)
    remembered.put(["kept"], [1])

    for number in range(100):
        remembered.put([f"text {number}"], [number])
        remembered.get(["kept"])

    assert remembered.get(["kept"]) == (1, [])
