"""The server over raw sockets: real HTTP, real gateway, real engine process, `tiny`."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest

import server_reference
from server_reference.__main__ import main
from server_reference.gateway.metering import Usage
from server_reference.gateway.server import ServerStartError
from tests.end_to_end.raw_http import num_open_files, opened, post, send, talk, until
from tests.end_to_end.tiny_calls import ANN, BOB, BOTH, chat, messages
from tests.server_reference.asgi import events


def test_a_message_streams(tiny_server):
    reply = post(tiny_server.base_url, "/v1/messages", messages(stream=True), key=ANN)

    names = [name for name, _ in events(reply.body)]
    assert reply.status == 200
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert names[-4:] == ["content_block_stop", "message_delta", ":", "message_stop"]
    assert set(names[3:-4]) == {"content_block_delta"}


def test_a_completion_streams(tiny_server):
    body = chat(stream=True, max_tokens=4, stream_options={"include_usage": True})

    reply = post(tiny_server.base_url, "/v1/chat/completions", body, key=ANN)

    *chunks, last, usage, (comment, _), done = events(reply.body)
    assert chunks[0][1]["choices"][0]["delta"]["role"] == "assistant"
    assert last[1]["choices"][0]["finish_reason"] == "length"
    assert usage[1]["usage"]["completion_tokens"] == 4
    assert (comment, done) == (":", (None, "[DONE]"))


@pytest.mark.parametrize(
    ("path", "body"), [("/health", None), ("/v1/messages", messages(stream=True))]
)
def test_a_connection_that_its_client_closes_is_given_back_at_once(tiny_server, path, body):
    """Not after `keep_alive_timeout`: clients that come and go would use up all descriptors."""
    before = num_open_files()

    for _ in range(3):
        method = "GET" if body is None else "POST"
        send(tiny_server.base_url, method, path, body, headers={"x-api-key": ANN})

    until(lambda: num_open_files() <= before, seconds=5)


def test_both_apis_and_both_forms_say_the_same(tiny_server):
    """They are made from one event stream."""
    url = tiny_server.base_url
    greedy = {"temperature": 0, "max_tokens": 12}
    whole = post(url, "/v1/messages", messages(**greedy), key=ANN).json()
    stream = events(post(url, "/v1/messages", messages(stream=True, **greedy), key=ANN).body)
    completion = post(url, "/v1/chat/completions", chat(**greedy), key=ANN).json()

    text = whole["content"][0]["text"]
    deltas = [data["delta"]["text"] for name, data in stream if name == "content_block_delta"]
    assert "".join(deltas) == text
    assert completion["choices"][0]["message"]["content"] == text


def test_a_prefix_is_read_from_the_cache_by_its_tenant_only(tiny_server):
    url = tiny_server.base_url
    prompt = "a prefix that no other test of this file sends, and that is long"

    cold, warm, other = (
        post(url, "/v1/messages", messages(prompt), key=key).json()["usage"]
        for key in (ANN, ANN, BOB)
    )

    assert cold["cache_read_input_tokens"] == 0
    assert warm["cache_read_input_tokens"] >= 48
    assert warm["input_tokens"] + warm["cache_read_input_tokens"] == cold["input_tokens"]
    assert other["cache_read_input_tokens"] == 0


def test_openais_prompt_tokens_have_cached_ones_in_them(tiny_server):
    prompt = "another prefix that only this test sends, long enough for some blocks"

    cold, warm = (
        post(
            tiny_server.base_url, "/v1/chat/completions", chat(prompt, max_tokens=1), key=ANN
        ).json()["usage"]
        for _ in range(2)
    )

    assert warm["prompt_tokens"] == cold["prompt_tokens"]
    assert warm["prompt_tokens_details"]["cached_tokens"] >= 48


def test_zero_tokens_fill_the_cache(tiny_server):
    url = tiny_server.base_url
    prompt = "a third prefix, computed before anyone asks for an answer to it"

    filled = post(url, "/v1/messages", messages(prompt, max_tokens=0), key=ANN).json()
    after = post(url, "/v1/messages", messages(prompt), key=ANN).json()

    assert (filled["content"], filled["stop_reason"]) == ([], "max_tokens")
    assert filled["usage"]["output_tokens"] == 0
    assert after["usage"]["cache_read_input_tokens"] >= 48


def test_counted_tokens_are_those_of_the_message(tiny_server):
    url = tiny_server.base_url
    body = messages("count me", system="Be brief.")

    counted = post(url, "/v1/messages/count_tokens", body, key=ANN).json()
    usage = post(url, "/v1/messages", body, key=BOB).json()["usage"]

    assert counted["input_tokens"] == usage["input_tokens"]


def test_a_stop_string_ends_the_output_and_is_named(tiny_server):
    url = tiny_server.base_url
    greedy = {"temperature": 0, "max_tokens": 12}
    text = post(url, "/v1/messages", messages(**greedy), key=ANN).json()["content"][0]["text"]
    stop = text[4:6]

    reply = post(url, "/v1/messages", messages(stop_sequences=[stop], **greedy), key=ANN).json()

    assert (reply["stop_reason"], reply["stop_sequence"]) == ("stop_sequence", stop)
    assert "".join(block["text"] for block in reply["content"]) == text[: text.index(stop)]


STAGES = r"gateway;dur=\d+\.\d{3};start=0\.000, tokenize;.*, route;.*, queue;.*, prefill;dur=.*"


def test_stages_of_a_whole_reply_stand_in_its_header(tiny_server):
    reply = post(tiny_server.base_url, "/v1/messages", messages(), key=ANN)

    assert re.fullmatch(STAGES + r", decode;dur=.*", reply.headers["server-timing"])


def test_stages_of_a_stream_stand_in_its_header_and_before_its_end(tiny_server):
    reply = post(tiny_server.base_url, "/v1/messages", messages(stream=True), key=ANN)

    header = reply.headers["server-timing"]
    assert re.fullmatch(STAGES, header)
    assert "decode" not in header
    (comment,) = [data for name, data in events(reply.body) if name == ":"]
    assert re.fullmatch(r"server-timing decode;dur=\d+\.\d{3};start=\d+\.\d{3}", comment)


@pytest.mark.parametrize("path", BOTH)
@pytest.mark.parametrize(
    ("change", "status"),
    [
        pytest.param({"messages": []}, 400, id="no-messages"),
        pytest.param({"messages": [{"role": "robot", "content": "x"}]}, 400, id="unknown-role"),
        pytest.param({"max_tokens": -1}, 400, id="max-tokens-negative"),
        pytest.param({"max_tokens": 0, "stream": True}, 400, id="max-tokens-zero-streamed"),
        pytest.param({"model": "other"}, 404, id="unknown-model"),
        pytest.param({"tools": [{"name": "f"}]}, 400, id="tools"),
        pytest.param({"max_tokns": 3}, 400, id="unknown-field"),
        pytest.param({"messages": [{"role": "user", "content": "x" * 2000}]}, 400, id="too-long"),
        pytest.param({"stop_sequences": 3, "stop": 3}, 400, id="wrong-type"),
    ],
)
def test_bad_input_is_refused_in_the_apis_shape(tiny_server, path, change, status):
    reply = post(tiny_server.base_url, path, messages() | change, key=ANN)

    assert reply.status == status
    error = reply.json()["error"]
    assert error["message"]
    assert error["type"] in ("invalid_request_error", "not_found_error")
    assert reply.json()["request_id"] == reply.headers["x-request-id"]


@pytest.mark.parametrize("path", BOTH)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{", id="malformed"),
        pytest.param(b"", id="empty"),
        pytest.param(b'{"model": "\\ud800"}', id="lone-surrogate"),
        pytest.param(b'{"model": "\xff"}', id="no-utf-8"),
        pytest.param(b"[" * 50_000, id="nested-deep"),
    ],
)
def test_a_body_that_is_no_json_is_400(tiny_server, path, body):
    reply = post(tiny_server.base_url, path, body, key=ANN)

    assert reply.status == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"


def test_a_prompt_longer_than_the_pool_is_refused_at_once_with_the_numbers(tiny_server):
    started = time.monotonic()

    reply = post(tiny_server.base_url, "/v1/messages", messages("x" * 3000), key=ANN)

    assert reply.status == 400
    assert "3,0" in reply.json()["error"]["message"]
    assert "1,024" in reply.json()["error"]["message"]
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("path", BOTH)
def test_a_prompt_longer_than_the_context_but_not_the_pool_is_refused_too(breakable_server, path):
    until(lambda: breakable_server.stats() is not None, seconds=60)

    reply = post(breakable_server.base_url, path, messages("x" * 5000))

    assert breakable_server.stats().num_blocks * 16 > 5100
    assert reply.status == 400
    assert "one request may have 4,096 here" in reply.json()["error"]["message"]


@pytest.mark.parametrize("path", BOTH)
@pytest.mark.parametrize("key", [None, "sk-wrong"])
def test_a_missing_or_wrong_key_is_401(tiny_server, path, key):
    reply = post(tiny_server.base_url, path, messages(), key=key)

    assert reply.status == 401
    assert reply.json()["error"]["message"]


@pytest.mark.parametrize("path", BOTH)
def test_a_body_that_is_too_long_is_413_and_the_connection_lives(tiny_server, path):
    with opened(tiny_server.base_url) as connection:
        body = messages("x" * 150_000)

        refused = talk(connection, "POST", path, body, headers={"x-api-key": ANN})
        after = talk(connection, "GET", "/health")

    assert refused.status == 413
    assert after.status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/nowhere", 404, id="unknown-path"),
        pytest.param("POST", "/v1/messages/batches", 404, id="unknown-endpoint"),
        pytest.param("GET", "/v1/messages", 405, id="wrong-method"),
        pytest.param("DELETE", "/v1/chat/completions", 405, id="another-wrong-method"),
        pytest.param("GET", "/v1/models/other", 404, id="unknown-model"),
    ],
)
def test_what_is_not_there_is_said_in_an_apis_shape(tiny_server, method, path, status):
    reply = send(tiny_server.base_url, method, path, headers={"x-api-key": ANN})

    assert reply.status == status
    assert reply.json()["error"]["message"]


def test_a_connection_serves_many_requests_refusals_among_them(tiny_server):
    key = {"x-api-key": ANN}
    with opened(tiny_server.base_url) as connection:
        statuses = [
            talk(connection, "POST", "/v1/messages", body, headers=key).status
            for body in [messages(max_tokens=1), b"{", messages(stream=True, max_tokens=1)] * 5
        ]
        local = connection.sock.getsockname()
        talk(connection, "GET", "/health")

        assert connection.sock.getsockname() == local

    assert statuses == [200, 400, 200] * 5


def test_a_connection_is_kept_for_any_number_of_requests(tiny_server):
    """hypercorn's own bound is 1,000."""
    with opened(tiny_server.base_url) as connection:
        replies = [talk(connection, "GET", "/health/live") for _ in range(1005)]

    assert {reply.status for reply in replies} == {200}
    assert not any("connection" in reply.headers for reply in replies)


def test_requests_are_metered_and_logged(tiny_server, logged):
    before = tiny_server.usage().get("bob", Usage())

    reply = post(tiny_server.base_url, "/v1/messages", messages(max_tokens=3), key=BOB)

    after = tiny_server.usage()["bob"]
    assert (after.requests, after.output) == (before.requests + 1, before.output + 3)
    until(lambda: logged and logged[-1]["request_id"] == reply.headers["request-id"])
    assert (logged[-1]["tenant"], logged[-1]["output_tokens"]) == ("bob", 3)
    assert "prefill" in logged[-1]["stages"]


def test_the_front_never_imports_torch():
    code = """
import sys, server_reference
with server_reference.start("tiny", num_blocks=64) as server:
    assert server.stats().num_running == 0
    sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_pool_that_is_too_small_is_one_sentence():
    with pytest.raises(ServerStartError, match="kv_memory_bytes"):
        server_reference.start("tiny", kv_memory_bytes=10)


def test_the_last_steps_of_a_server_without_keys_are_told_on_its_machine(capsys):
    with server_reference.start("tiny") as server:
        post(server.base_url, "/v1/messages", messages(max_tokens=3))
        code = main(["explain", "--url", server.base_url, "--last", "2"])

    out = capsys.readouterr().out
    assert code == 0
    assert [line.split()[1] for line in out.splitlines() if line.startswith("step")] == ["2", "3"]
    assert "decode" in out


def test_the_last_steps_are_for_the_admin_where_there_are_tenants(tiny_server):
    reply = send(tiny_server.base_url, "GET", "/debug/steps", None, headers={"x-api-key": ANN})

    assert reply.status == 401
