"""That no preset of a fault goes without a test of its bytes or frames."""

from __future__ import annotations

from server_reference.scripted.faults import PRESETS
from tests.end_to_end import (
    test_fault_encodings,
    test_fault_events,
    test_fault_frames,
    test_fault_refusals,
    test_fault_replies,
    test_fault_streams,
)

TESTED = (
    test_fault_encodings.TESTED
    | test_fault_events.TESTED
    | test_fault_frames.TESTED
    | test_fault_refusals.TESTED
    | test_fault_replies.TESTED
    | test_fault_streams.TESTED
)


def test_every_preset_has_its_bytes_or_frames_asserted():
    assert sorted(set(PRESETS) - TESTED) == []
