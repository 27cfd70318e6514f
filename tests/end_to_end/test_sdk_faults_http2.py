"""What httpx2, the HTTP client below both SDKs, does over HTTP/2.

Seen with httpx2 2.16 and httpx 0.28 (httpcore2 2.16 and httpcore 1.0); each test names the
public report.
"""

from __future__ import annotations

import threading
import time

import httpx
import httpx2
import pytest

import server_reference
from server_reference.scripted import fault, rule
from server_reference.scripted.ops import Body, End, Fin, GoAway, Head
from tests.end_to_end.plain_sdks import ANSWER, BODY, both_sdks, over_http2
from tests.end_to_end.scripted_raw import wait_until

pytestmark = pytest.mark.sdk

HANGING = ANSWER | fault("stall_after", events=3)
ONE_STREAM = {"MAX_CONCURRENT_STREAMS": 1}
families = pytest.mark.parametrize("family", [httpx2, httpx])


def leave_a_stream(client):
    with client.stream("POST", "/v1/messages", json=BODY) as reply:
        next(reply.iter_text())


@families
def test_a_stream_that_is_left_is_not_reset_and_its_place_is_lost(family):
    """httpcore#943, PR#944; httpx#1414: after as many as the server allows, nothing goes."""
    rules = [rule(HANGING, times=3), rule(ANSWER)]
    settings = {"MAX_CONCURRENT_STREAMS": 3}
    with (
        server_reference.scripted(rules, http2_settings=settings) as server,
        family.Client(http1=False, http2=True, base_url=server.base_url) as client,
    ):
        for _ in range(3):
            leave_a_stream(client)

        assert server.counters().resets_seen == 0
        with pytest.raises(family.LocalProtocolError, match="3 open"):
            client.post("/v1/messages", json=BODY)


@both_sdks
def test_a_place_that_was_lost_fails_the_sdks_next_call(sdk):
    rules = [rule(HANGING, times=1), rule(ANSWER)]
    with (
        server_reference.scripted(rules, http2_settings=ONE_STREAM) as server,
        sdk.client(server, http_client=over_http2(server), max_retries=0) as client,
    ):
        with sdk.ask(client, stream=True) as stream:
            next(iter(stream))

        assert isinstance(sdk.fails(client), sdk.package.APIConnectionError)


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        pytest.param("goaway", httpx2.RemoteProtocolError, id="kept-open"),
        # Its own frames may meet the closed socket first.
        pytest.param("goaway_then_close", httpx2.TransportError, id="closed"),
    ],
)
def test_goaway_before_the_first_stream_is_not_taken_for_unprocessed(name, errors):
    """httpcore#730, PR#1054: `last_stream_id` 0 says that nothing was processed."""
    rules = [rule(ANSWER | fault(name), times=1), rule(ANSWER)]
    with server_reference.scripted(rules) as server, over_http2(server) as client:
        with pytest.raises(errors):
            client.post("/v1/messages", json=BODY)

        assert server.counters().requests == 1


@families
def test_goaway_that_names_the_stream_before_is_taken_for_unprocessed(family):
    ok = [Head(200), Body(b"ok"), End()]
    script = [ok, [GoAway(last_stream_id=1), Fin()], ok]
    with (
        server_reference.scripted(script) as server,
        family.Client(http1=False, http2=True, base_url=server.base_url) as client,
    ):
        assert [client.post("/any").content for _ in range(2)] == [b"ok", b"ok"]


def test_a_stream_that_goaway_lets_finish_fails():
    """RFC 9113, section 6.8: streams up to the last one may still complete."""
    rules = [rule(ANSWER | fault("goaway_graceful"), times=1), rule(ANSWER)]
    with (
        server_reference.scripted(rules) as server,
        over_http2(server) as client,
        pytest.raises(httpx2.LocalProtocolError, match="CLOSED"),
    ):
        client.post("/v1/messages", json=BODY)


def test_a_refused_stream_is_not_sent_again():
    """RFC 9113, section 8.7: REFUSED_STREAM says that nothing was processed."""
    rules = [rule(fault("refused_stream"), times=1), rule(ANSWER)]
    with (
        server_reference.scripted(rules) as server,
        over_http2(server) as client,
        pytest.raises(httpx2.RemoteProtocolError, match="error_code:7"),
    ):
        client.post("/v1/messages", json=BODY)


def test_streams_do_not_keep_their_own_read_limits():
    """Who reads the socket does it for all, with its own limit: either that ends a sibling too,
    or a sibling with a shorter one waits too long.
    """
    slow = ANSWER | fault("silence_before_first_event", seconds=1.2)
    rules = [rule(HANGING, user="stalls"), rule(slow, user="slow")]
    lasted, failed = {}, set()

    def ask(client, user, timeout):
        body = BODY | {"messages": [{"role": "user", "content": user}]}
        start = time.monotonic()
        try:
            client.post("/v1/messages", json=body, timeout=timeout)
        except httpx2.ReadTimeout:
            failed.add(user)
        lasted[user] = time.monotonic() - start

    with server_reference.scripted(rules) as server, over_http2(server) as client:
        first = threading.Thread(target=ask, args=(client, "stalls", 0.5))
        first.start()
        wait_until(lambda: server.counters().requests == 1)
        ask(client, "slow", 60.0)
        first.join()

    assert "stalls" in failed
    assert "slow" in failed or lasted["stalls"] > 1.0
