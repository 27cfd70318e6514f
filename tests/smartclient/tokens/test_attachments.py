"""What can only be guessed at."""

from __future__ import annotations

import pytest

from smartclient.tokens.attachments import add_audio, add_file, add_image
from tests.smartclient.tokens.samples import a_tally


@pytest.mark.parametrize("add", [add_audio, add_file])
def test_more_bytes_are_more_tokens(add):
    small, large = a_tally(), a_tally()

    add(small, "QUJD" * 100_000, "a")
    add(large, "QUJD" * 1_000_000, "a")

    assert small.low < small.mid < small.high
    assert large.mid > 5 * small.mid


@pytest.mark.parametrize("add", [add_audio, add_file])
def test_what_is_somewhere_else_counts_as_a_megabyte(add):
    tally, known = a_tally(), a_tally()

    add(tally, None, "a")
    add(known, "QUJD" * 333_333, "a")

    assert tally.mid == pytest.approx(known.mid, rel=0.01)
    assert (tally.kind, tally.unknown) == ("files", ["a"])


def test_a_minute_of_speech_is_six_hundred_tokens():
    tally = a_tally()

    add_audio(tally, "A" * (60 * 32_000 * 4 // 3), "a")

    assert tally.mid == pytest.approx(600)


@pytest.mark.parametrize("source", [None, 7, {"odd": True}, "https://a.example"])
def test_an_image_of_any_form_is_no_error(source):
    tally = a_tally()

    add_image(tally, source, "a", detail=None)

    assert (tally.kind, tally.unknown) == ("images", ["a"])
