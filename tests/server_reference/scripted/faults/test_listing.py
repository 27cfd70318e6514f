from __future__ import annotations

import pytest

from server_reference.scripted.faults import PRESETS
from server_reference.scripted.faults.client_side import CLIENT_SIDE
from server_reference.scripted.faults.listing import listing, signature, wrong


def test_everything_is_listed():
    lines = listing().splitlines()
    heads = {line.strip().partition("(")[0].partition(" ")[0] for line in lines if "[" in line}

    assert {*PRESETS, *(row.name for row in CLIENT_SIDE)} <= heads


def test_a_fault_is_shown_with_what_happens_and_what_is_right():
    assert listing(name="reset_after") == (
        "END: how a stream ends\n"
        "  reset_after(events=3)  [server: stream]\n"
        "      The connection is reset after some events.\n"
        "      Right: The same error as for a closed connection, with the part that came.\n"
    )


def test_what_only_a_client_can_cause_says_why():
    assert "[client]" in listing(name="fork")
    assert "Not by a server: It happens inside the client's process." in listing(name="fork")


def test_a_kind_is_listed_alone():
    listed = listing(kind="SEC")

    assert listed.startswith("SEC: secrets\n  set_cookie_secret(")
    assert "reset_after" not in listed


def test_a_signature_has_the_defaults():
    assert signature(PRESETS["error_object"]) == (
        "error_object(after=0, done=True, message='the model crashed')"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": None, "name": "fork"}, None),
        ({"kind": "H2", "name": None}, None),
        ({"kind": None, "name": "forks"}, "'forks' is no fault; did you mean 'fork'?"),
        ({"kind": "SSL", "name": None}, "'SSL' is no kind of fault;"),
    ],
)
def test_an_unknown_name_or_kind_is_told(given, said):
    assert (wrong(**given) or "").startswith(said or "")
    assert (wrong(**given) is None) == (said is None)
