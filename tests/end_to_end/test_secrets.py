"""A key is nowhere but in the request: not in an error, nor in the frames it comes through."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator

import pytest

import smartclient
from server_reference.scripted.clock import ManualClock
from server_reference.scripted.config import ScriptedConfig
from server_reference.scripted.providers.cache_rules import CacheRules
from server_reference.scripted.providers.rate_limits import Limits
from server_reference.scripted.request import Received
from server_reference.scripted.watch import Watch
from smartclient import Client

from .raw_server import RawServer, forever, reply

KEY = "sk-very-secret-indeed-0123"
ASKED = {"model": "tiny", "max_tokens": 8, "messages": []}
JSON = b"content-type: application/json"
SAID = {"error": {"type": "authentication_error", "message": f"wrong key: {KEY}"}}


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def shown(error: BaseException) -> str:
    """All that an error, its causes and its contexts say, and what our frames below hold."""
    said = "".join(traceback.format_exception(error))
    for one in chain(error):
        said += f"{one!r} {one.args} {one.__dict__}"
        for frame, _ in traceback.walk_tb(one.__traceback__):
            if "/smartclient/net/" in frame.f_code.co_filename:
                said += repr(list(frame.f_locals.values()))
    return said


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="closed"),
        pytest.param(b"no http\r\n\r\n", id="garbage"),
        pytest.param(reply(b"no json", JSON), id="malformed"),
        pytest.param(
            reply(b"", b"location: /?key=" + KEY.encode(), status=b"302 X"), id="redirect"
        ),
        pytest.param(reply(json.dumps(SAID).encode(), JSON, status=b"401 No"), id="repeated"),
    ],
)
def test_no_error_shows_it(answer):
    def script(peer) -> None:
        peer.request()
        peer.send(answer)
        peer.close()

    with RawServer(script) as server:
        base_url = server.url.removesuffix("/v1/messages")
        client = Client(base_url=base_url, api_key=KEY, max_retries=0)
        with pytest.raises(smartclient.SmartClientError) as caught:
            client.messages.create(**ASKED, extra_query={"key": KEY})

    assert KEY not in shown(caught.value).replace("target='/v1/messages?key=" + KEY, "")


def test_a_header_that_cannot_be_sent_is_not_shown():
    with RawServer(forever(b"")) as server:
        client = Client(base_url=server.url.removesuffix("/v1/messages"), api_key=KEY)
        with pytest.raises(ValueError, match="not shown") as caught:
            client.messages.create(**ASKED, extra_headers={"x-auth": f"{KEY}\r\nx-more: y"})

    assert KEY not in shown(caught.value)


@pytest.mark.parametrize("base_url", [f"http://a:{KEY}/", f"http://me:{KEY}@a/", f"{KEY}://a/"])
def test_an_address_that_cannot_be_is_not_shown(base_url):
    with pytest.raises(ValueError, match=r"URL|base_url") as caught:
        Client(base_url=base_url, api_key="k")

    assert KEY not in shown(caught.value)


def test_neither_client_nor_report_shows_it():
    with RawServer(forever(lambda request: reply(b"{}", JSON))) as server:
        client = Client(base_url=server.url.removesuffix("/v1/messages"), api_key=KEY)
        client.messages.create(**ASKED, extra_query={"key": KEY})

    report = client.last_report
    assert KEY not in f"{client!r} {vars(client._session)} {report!r} {report} {report.to_dict()}"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(
            Received("POST", f"/v1?key={KEY}", (("x-api-key", KEY),), KEY.encode()), id="request"
        ),
        pytest.param(ScriptedConfig(api_keys=[KEY]), id="configuration"),
        pytest.param(Limits(by_key={KEY: Limits()}, workspaces={KEY: "w"}), id="limits"),
        pytest.param(CacheRules(workspaces={KEY: "w"}), id="cache"),
    ],
)
def test_a_failing_test_that_shows_its_variables_shows_no_key(value):
    assert KEY not in repr(value)


def test_two_outcomes_of_a_call_are_refused_without_the_errors_text():
    call = Watch(ManualClock()).scopes.new(None)

    with pytest.raises(ValueError, match="error=RuntimeError") as caught:
        call.outcome("a", error=RuntimeError(KEY))

    assert KEY not in str(caught.value)
