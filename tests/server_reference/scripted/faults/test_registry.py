from __future__ import annotations

import dataclasses

import pytest

from server_reference.scripted.answers import Answer
from server_reference.scripted.compile import Compiler
from server_reference.scripted.faults import PRESETS, fault, greeting
from server_reference.scripted.faults.client_side import CLIENT_SIDE
from server_reference.scripted.faults.pieces import UnfitError
from server_reference.scripted.faults.presets import KINDS
from server_reference.scripted.ops import HalfClose, Wait
from server_reference.scripted.then import check_script, item_from_json
from tests.server_reference.scripted.received import PATHS, a_request

ON_REPLIES = [one for one in PRESETS.values() if "greeting" not in one.needs]


def test_an_unknown_fault_is_told_with_the_nearest():
    with pytest.raises(ValueError, match="'reset_aftr' is no fault; did you mean 'reset_after'"):
        fault("reset_aftr")


def test_a_greeting_is_no_fault_of_a_reply():
    with pytest.raises(ValueError, match=r"greetings=\{1: greeting\('slow_accept'\)\}"):
        fault("slow_accept")


def test_a_fault_of_a_reply_is_no_greeting():
    with pytest.raises(ValueError, match=r"give a rule's then fault\('reset_after'\)"):
        greeting("reset_after")


def test_a_greeting_is_a_script():
    assert greeting("slow_accept", seconds=2) == [Wait(2)]
    assert greeting("early_response")[-1] == HalfClose()


@pytest.mark.parametrize("preset", ON_REPLIES, ids=lambda one: one.name)
@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_every_fault_breaks_a_reply_or_says_what_it_needs(preset, api, stream):
    received = a_request(api, stream=stream, stream_options={"include_usage": True})
    protocol = "h2" if "h2" in preset.needs else "http/1.1"
    received = dataclasses.replace(received, protocol=protocol)
    script = Compiler().answer(Answer("Hello big world"), received, event_by_event=True)

    try:
        broken = preset().apply(script, received)
    except UnfitError:
        assert (preset.apis and api not in preset.apis) or ("stream" in preset.needs and not stream)
    else:
        check_script(broken)
        second_look = preset.name in ("stale_keepalive", "refused_encoding")
        assert (list(broken) == script) == second_look


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_faults(kind):
    assert any(one.kind == kind for one in [*PRESETS.values(), *CLIENT_SIDE])


def test_json_names_a_fault():
    item = item_from_json({"text": "x", "fault": {"name": "stall_after", "events": 2}})

    assert item.fault == fault("stall_after", events=2)
