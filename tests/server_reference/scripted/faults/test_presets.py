from __future__ import annotations

import dataclasses

import pytest

from server_reference.scripted.compile import json_reply
from server_reference.scripted.faults import PRESETS, fault
from server_reference.scripted.faults.ends import reset_after
from server_reference.scripted.faults.pieces import UnfitError
from server_reference.scripted.ops import Body, End, Head, Reset
from tests.server_reference.scripted.received import a_request

HEAD = Head(200, (("content-type", "text/event-stream"),))
STREAM = [HEAD, Body(b"data: 1\n\n"), Body(b"data: 2\n\n"), End()]

every_preset = pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda one: one.name)


def test_a_preset_is_called_with_its_parameters():
    made = reset_after(events=1)

    assert made.apply(STREAM, a_request()) == [HEAD, Body(b"data: 1\n\n"), Reset()]
    assert made == fault("reset_after", events=1)
    assert made == reset_after(1)


def test_what_it_is_stands_in_its_docstring():
    assert reset_after.name == "reset_after"
    assert reset_after.condition == "The connection is reset after some events."
    assert reset_after.parameters == {"events": (3, "How many; with 0 only the head comes.")}


@every_preset
def test_a_preset_says_what_happens_what_is_right_and_where_it_was_seen(preset):
    assert preset.condition.endswith((".", "`."))
    assert preset.right.endswith(".")
    assert len(preset.sources) > 2
    assert all(said.endswith(".") for _, said in preset.parameters.values())


@every_preset
def test_every_parameter_has_a_default(preset):
    preset()


@pytest.mark.parametrize(
    ("name", "protocol", "said"),
    [
        ("only_done", "http/1.1", "it is for openai.chat, and this is anthropic.messages"),
        ("goaway", "http/1.1", "it needs HTTP/2, and this request came over http/1.1"),
        ("fin_mid_chunk", "h2", "it needs HTTP/1.1, and this request came over h2"),
    ],
)
def test_an_unfit_request_is_told(name, protocol, said):
    with pytest.raises(UnfitError, match=f"fault {name}: {said}"):
        fault(name).apply(STREAM, dataclasses.replace(a_request(), protocol=protocol))


def test_a_reply_that_is_no_stream_is_told():
    with pytest.raises(UnfitError, match="match it with stream=True"):
        fault("reset_after").apply(json_reply({}), a_request())


def test_a_fault_after_one_that_took_the_head_is_told():
    without_head = fault("no_reply").apply(STREAM, a_request())

    with pytest.raises(UnfitError, match="let this fault go first"):
        fault("close_after_request").apply(without_head, a_request())
