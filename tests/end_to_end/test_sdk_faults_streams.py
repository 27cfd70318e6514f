"""What the plain SDKs, and httpx2 below them, make of odd event streams and of odd ends.

Seen with openai 3.57, anthropic 2.14 and httpx2 2.16; each test names the public report. One
that fails has good news: then `python -m tools.sdk_table` writes the page anew.
"""

from __future__ import annotations

import gc
import json

import anthropic
import httpx2
import openai
import pytest

import server_reference
from server_reference.scripted import fault
from tests.end_to_end.plain_sdks import ANSWER, BODY, PlainSdk, both_sdks
from tests.end_to_end.scripted_raw import wait_until

pytestmark = pytest.mark.sdk

WHOLE = ["Hello", " big", " wide", " world"]
OPENAI, ANTHROPIC = PlainSdk(openai), PlainSdk(anthropic)
ANTHROPIC_TYPES = (
    ["message_start", "content_block_start"]
    + ["content_block_delta"] * 4
    + ["content_block_stop", "message_delta", "message_stop"]
)


def playing(name, **parameters):
    return server_reference.scripted(ANSWER | fault(name, **parameters))


def events_of_httpx2(server):
    with (
        httpx2.Client(base_url=server.base_url) as client,
        client.stream("POST", "/v1/messages", json=BODY) as reply,
    ):
        return list(httpx2.EventSource(reply))


# How lines are read.


def test_a_byte_order_mark_costs_openai_the_first_event():
    """codex-lb PR#1854."""
    with playing("bom_before_data") as server, OPENAI.client(server) as client:
        chunks = OPENAI.stream(client)

    assert [chunk.choices[0].delta.role for chunk in chunks] == [None] * 5


def test_a_byte_order_mark_costs_anthropic_the_message_start():
    with playing("bom_before_data") as server, ANTHROPIC.client(server) as client:
        assert [event.type for event in ANTHROPIC.stream(client)] == ANTHROPIC_TYPES[1:]


def test_a_byte_order_mark_costs_httpx2_the_first_events_name():
    with playing("bom_before_data") as server:
        first, *_ = events_of_httpx2(server)

    assert first.event == "message"
    assert json.loads(first.data)["type"] == "message_start"


def test_httpx2_decodes_events_by_the_headers_charset():
    """httpx2 PR#1046: an event stream is UTF-8, whatever its header says."""
    with playing("wrong_charset") as server:
        data = "".join(event.data for event in events_of_httpx2(server))

    assert "é€ ".encode().decode("windows-1252") in data


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("retry_only_block", id="retry"),
        pytest.param("id_only_block", id="id"),
        pytest.param("event_without_data", id="event"),
        pytest.param("comment_after_id", id="comment-after-an-id"),
    ],
)
def test_openai_reads_json_in_a_block_without_data(name):
    """openai-python#2722, #3833, PR#2721; llmgateway PR#2334 for the comment."""
    with (
        playing(name) as server,
        OPENAI.client(server) as client,
        pytest.raises(json.JSONDecodeError),
    ):
        OPENAI.stream(client)


@pytest.mark.parametrize("name", ["retry_only_block", "event_without_data", "comment_after_id"])
def test_anthropic_skips_a_block_without_data(name):
    with playing(name) as server, ANTHROPIC.client(server) as client:
        assert [event.type for event in ANTHROPIC.stream(client)] == ANTHROPIC_TYPES


@pytest.mark.parametrize("name", ["retry_only_block", "event_without_data"])
def test_httpx2_hands_on_a_block_without_data(name):
    """web-platform-tests eventsource/event-data."""
    with playing(name) as server:
        assert [event.data for event in events_of_httpx2(server)].count("") == 1


def test_httpx2_refuses_an_event_of_more_than_a_mebibyte():
    """Many stacks stop here: aiohttp#4453, python-genai#2248."""
    with (
        playing("huge_line", mib=1.1) as server,
        pytest.raises(httpx2.SSEError, match="1048576"),
    ):
        events_of_httpx2(server)


# How streams end.


@both_sdks
@pytest.mark.parametrize("events", [3, 5])
def test_a_stream_that_is_cut_in_good_order_passes_for_whole(sdk, events):
    """pydantic-ai#6610; anthropic-sdk-typescript#893, PR#920."""
    with (
        playing("cut_after", events=events) as server,
        sdk.client(server) as client,
        server.call() as call,
    ):
        call.text = "".join(sdk.texts(client))

        assert "Hello big wide world".startswith(call.text)
        assert server.verdict().names.count("truncated_accepted") == 1


def test_anthropics_final_message_may_have_no_stop_reason():
    with (
        playing("cut_after", events=5) as server,
        ANTHROPIC.client(server) as client,
        client.messages.stream(**{k: v for k, v in BODY.items() if k != "stream"}) as stream,
    ):
        message = stream.get_final_message()

    assert message.stop_reason is None
    assert "Hello big wide world".startswith(message.content[0].text)


@pytest.mark.parametrize(
    ("sdk", "error"),
    [
        pytest.param(OPENAI, openai.APIConnectionError, id="openai"),
        pytest.param(ANTHROPIC, httpx2.RemoteProtocolError, id="anthropic"),
    ],
)
def test_a_close_inside_the_body_is_the_transports_error_in_anthropic(sdk, error):
    """LLMock's table of SDKs; litellm PR#32159."""
    with (
        playing("fin_mid_chunk") as server,
        sdk.client(server) as client,
        pytest.raises(error) as caught,
    ):
        sdk.stream(client)

    assert isinstance(caught.value, sdk.package.APIError) is sdk.is_openai


@pytest.mark.parametrize(
    ("sdk", "error"),
    [
        pytest.param(OPENAI, openai.APIConnectionError, id="openai"),
        pytest.param(ANTHROPIC, httpx2.ReadError, id="anthropic"),
    ],
)
def test_a_reset_inside_the_body_is_the_transports_error_in_anthropic(sdk, error):
    with (
        playing("reset_mid_chunk") as server,
        sdk.client(server) as client,
        pytest.raises(error),
    ):
        sdk.stream(client)


def test_an_overload_in_anthropics_stream_has_the_status_200():
    """anthropic-sdk-python#688, #1258: no retry by class or status ever fires."""
    with playing("error_event") as server, ANTHROPIC.client(server) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            ANTHROPIC.stream(client)
        server.assert_attempts(1)

    assert type(caught.value) is anthropic.APIStatusError
    assert caught.value.status_code == 200


@pytest.mark.parametrize(
    ("sdk", "connections"),
    [pytest.param(OPENAI, 5, id="openai"), pytest.param(ANTHROPIC, 1, id="anthropic")],
)
def test_openai_opens_a_connection_for_each_stream(sdk, connections):
    """openai-python#3440, PR#3442, PR#3512: it closes at `[DONE]`, before the body's end."""
    with server_reference.scripted(ANSWER) as server, sdk.client(server) as client:
        for _ in range(5):
            assert sdk.texts(client) == WHOLE

        assert server.counters().connections_opened == connections
        assert ("stream_not_drained" in server.verdict().names) is sdk.is_openai


def test_who_reads_to_the_end_over_httpx2_keeps_the_connection():
    with (
        server_reference.scripted(ANSWER) as server,
        httpx2.Client(base_url=server.base_url) as client,
    ):
        for _ in range(5):
            assert client.post("/v1/chat/completions", json=BODY).is_success

        server.assert_reused(connections=1)


@both_sdks
def test_a_break_without_a_close_keeps_the_connection_busy(sdk):
    """openai-python#763, #667: until the stream is collected, its place in the pool is taken."""
    with playing("abandonable_stream") as server, sdk.client(server) as client:
        stream = sdk.ask(client, stream=True)
        for _ in stream:
            break
        assert server.counters().streams_open == 1

        del stream, _
        gc.collect()
        wait_until(lambda: server.counters().streams_open == 0)
