"""What an SDK's request looks like on the wire when we carry it."""

from __future__ import annotations

import asyncio
import io

import openai
import pytest

from .raw_server import RawServer, forever, reply
from .sdk_sides import SIDES

pytestmark = pytest.mark.sdk

JSON = b"content-type: application/json"
OPENAI = [one for one in SIDES if not one.values[0].is_anthropic]


def upload(side, client) -> None:
    given = {"file": ("a.txt", io.BytesIO(b"hello")), "purpose": "batch"}
    if not side.is_async:
        client.files.create(**given)
        return

    async def main() -> None:
        async with client:
            await client.files.create(**given)

    asyncio.run(main())


@pytest.mark.parametrize("side", SIDES)
def test_a_host_header_of_the_callers_own_is_sent(side):
    requests = []
    answer = forever(lambda request: requests.append(request.lower()) or reply(b"{}", JSON))
    with RawServer(answer) as server:
        side.fetch(side.client(server, default_headers={"Host": "virtual.test"}))

    assert b"\r\nhost: virtual.test\r\n" in requests[0]
    assert requests[0].count(b"\r\nhost:") == 1


@pytest.mark.parametrize("side", OPENAI)
def test_a_form_is_sent_with_its_length_and_sent_again(side):
    """As without us: not every server takes chunks, and each attempt needs the whole file."""
    requests = []
    busy = reply(b"{}", JSON, b"retry-after-ms: 1", status=b"503 Busy")
    answer = forever(lambda request: requests.append(request) or busy)

    with RawServer(answer) as server, pytest.raises(openai.InternalServerError):
        upload(side, side.client(server, max_retries=1))

    assert len(requests) == 2
    assert all(b"content-length: " in request for request in requests)
    assert all(b"hello" in request for request in requests)
