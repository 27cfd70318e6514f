"""What a caller gets from a wrapped client is what the plain one gives."""

from __future__ import annotations

import pytest

import server_reference
import smartclient
from server_reference.scripted import Answer
from tests.sdk_matrix.results import WAYS, plain
from tests.sdk_matrix.sides import SIDES

pytestmark = pytest.mark.sdk

ANSWER = Answer('{"capital": "Paris é"}', split="character")
CASES = [
    pytest.param(side, way, id=f"{way.name}-{'async' if side.is_async else 'sync'}")
    for way in WAYS
    for side in SIDES
    if side.package.__name__ == way.package
]


@pytest.mark.parametrize(("side", "way"), CASES)
async def test_a_wrapped_client_gives_what_a_plain_one_gives(side, way):
    with server_reference.scripted(ANSWER) as server:
        client = side.client(server)
        if not way.is_there(client):
            pytest.skip(f"{side.package.__name__} {side.package.__version__} has no {way.needs}")
        expected = plain(await way.ask(side, client))
        wrapped = plain(await way.ask(side, smartclient.wrap(client)))
        await side.close(client)

    assert "Paris" in str(expected) or "streaming-response" in way.name
    assert wrapped == expected


@pytest.mark.parametrize(("side", "way"), CASES)
async def test_each_way_is_one_call_with_one_report(side, way):
    reports = []
    with server_reference.scripted(ANSWER) as server:
        client = smartclient.wrap(side.client(server), on_report=reports.append)
        if not way.is_there(client):
            pytest.skip(f"{side.package.__name__} {side.package.__version__} has no {way.needs}")
        await way.ask(side, client)
        await side.close(client)
        server.assert_attempts(1)

    assert [(one.status, one.error, len(one.attempts)) for one in reports] == [(200, None, 1)]
