"""Requests that an SDK signs: as it signs them they arrive, attempt by attempt."""

from __future__ import annotations

import json

import pytest

import server_reference
import smartclient
from server_reference.scripted import ErrorAnswer, fault
from tests.sdk_matrix.clouds import MESSAGE, SIGNERS, Signed, amazons_events
from tests.sdk_matrix.sides import items, settled

pytestmark = pytest.mark.sdk

SIGNING = pytest.mark.parametrize(
    "signer", [pytest.param(one, id=one.name) for one in SIGNERS if one.is_there]
)
BEDROCK = pytest.mark.parametrize(
    "signer", [pytest.param(one, id=one.name) for one in SIGNERS if one.service == "bedrock"]
)
EVENTS = pytest.mark.parametrize(
    "signer",
    [
        pytest.param(one, id=one.name)
        for one in SIGNERS
        if one.is_there and one.service != "bedrock"  # which has events of its own
    ],
)


def at_once(state):
    """A tenacity `wait`: no test waits."""
    return 0.0


@SIGNING
async def test_each_attempt_is_signed_as_it_is_sent(signer):
    signed = Signed([ErrorAnswer(503), fault("no_reply"), signer.answer()], signer.service)
    with server_reference.scripted(signed.answer) as server:
        client = smartclient.wrap(signer.client(server), wait=at_once)
        answer = await signer.ask(client)
        await settled(client.close())

    assert "Paris" in str(answer)
    assert signed.checked == [True, True, True]
    assert signed.counts == ["0", "1", "2"]
    assert len(smartclient.last_report(client).attempts) == 3


@SIGNING
async def test_a_copy_signs_too_and_keeps_its_limit(signer):
    signed = Signed([ErrorAnswer(503)] * 2, signer.service)
    with server_reference.scripted(signed.answer) as server:
        client = smartclient.wrap(signer.client(server, max_retries=5), wait=at_once)
        copy = client.with_options(max_retries=1)
        with pytest.raises(Exception, match="503"):
            await signer.ask(copy)
        await settled(client.close())

    assert signed.checked == [True, True]
    assert len(smartclient.last_report(copy).attempts) == 2
    assert copy._client is client._client


@SIGNING
async def test_what_is_sent_is_what_the_plain_client_sends(signer):
    """Of what an iterator gave, too: it can be read once, and each attempt needs it."""
    answers = [ErrorAnswer(503), signer.answer(), signer.answer()]
    signed = Signed(answers, signer.service)
    with server_reference.scripted(signed.answer) as server:
        client = smartclient.wrap(signer.client(server), wait=at_once)
        await signer.ask(client, iter([{"role": "user", "content": "é"}]))
        smartclient.unwrap(client)
        await signer.ask(client, [{"role": "user", "content": "é"}])
        await settled(client.close())

    assert signed.checked == [True, True, True]
    assert signed.bodies[0] == signed.bodies[1]
    assert json.loads(signed.bodies[0]) == json.loads(signed.bodies[2])


@SIGNING
async def test_an_edit_of_ours_comes_before_the_signature(signer):
    signed = Signed([ErrorAnswer(503), signer.answer()], signer.service)
    with server_reference.scripted(signed.answer) as server:
        client = smartclient.wrap(signer.client(server), wait=at_once)
        signer.edit(client, {"top_k": 7})
        await signer.ask(client)
        await settled(client.close())

    assert signed.checked == [True, True]
    assert [json.loads(body).get("top_k") for body in signed.bodies] == [7, 7]


@EVENTS
async def test_a_stream_that_breaks_before_its_content_is_signed_anew(signer):
    signed = Signed([fault("reset_after", events=1), "Paris"], signer.service)
    with server_reference.scripted(signed.answer) as server:
        client = smartclient.wrap(signer.client(server), wait=at_once)
        events = await items(await signer.ask(client, stream=True))
        await settled(client.close())

    assert "Paris" in str(events)
    assert signed.checked == [True, True]


@BEDROCK
async def test_amazons_own_events_pass_as_they_came(signer):
    events = amazons_events(
        {"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None}},
        {"type": "ping"},
        {"type": "message_stop"},
    )
    signed = Signed([ErrorAnswer(503), events, events], signer.service)
    with server_reference.scripted(signed.answer) as server:
        client = smartclient.wrap(signer.client(server), wait=at_once)
        came = await items(await signer.ask(client, stream=True))
        smartclient.unwrap(client)
        plain = await items(await signer.ask(client, stream=True))
        await settled(client.close())

    assert came == plain
    assert came[-1].type == "message_stop"
    assert signed.checked == [True, True, True]
