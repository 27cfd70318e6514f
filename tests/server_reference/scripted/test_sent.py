"""What a reply said is read back from its bytes."""

from __future__ import annotations

import json

import pytest

from server_reference.scripted.ops import Body, End, Head, Op
from server_reference.scripted.sent import read_sent
from tests.server_reference.scripted.watched import Played, stream


def sent(ops, how="complete"):
    played = Played()
    played.exchange(ops=ops, how=how)
    return read_sent(played.watch.journal.entries()[0])


def event(**fields: object) -> bytes:
    return b"data: %s\n\n" % json.dumps(fields).encode()


def whole(status=200, length=None, **fields: object) -> list[Op]:
    data = json.dumps(fields).encode()
    return [Head(status, framing="length", length=length or len(data)), Body(data), End()]


FINISH = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
DONE = b"data: [DONE]\n\n"
LONG = [b'data: {"choices":[{"delta":{"content":"' + b"a" * 2**20 + b'"}}]}\n\n'] * 3
FAILED = {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}
GZIP = (b"\x1f\x8b", b"\x08")
ENCODED = (("content-encoding", "gzip"),)
CHUNK = {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param(whole(choices=[{"message": {"content": "Hi"}}]), id="chat"),
        pytest.param(whole(content=[{"text": "H"}, {"input": {}}, {"text": "i"}]), id="messages"),
        pytest.param(whole(output=[{"content": [{"text": "Hi"}]}, {"id": 1}]), id="responses"),
        pytest.param(stream(event(**CHUNK), b"data: [DONE]\n\n"), id="chunks"),
        pytest.param(stream(b'data: {"no": "\xff"}\n\n', event(**CHUNK)), id="bytes-of-no-utf-8"),
        pytest.param(stream(b"data: {\r\ndata: }\r\n\r\n", event(**CHUNK)), id="crlf-and-lines"),
        pytest.param(stream(b": ping\n\n", b"data: nonsense\n\n", event(**CHUNK)), id="noise"),
        pytest.param(stream(event(choices=None), event(choices=[3, None]), event(**CHUNK)), id="x"),
        pytest.param(
            stream(event(**CHUNK), event(choices=[{"index": 1, "delta": {"content": "No"}}])),
            id="first-choice",
        ),
    ],
)
def test_the_text(ops):
    assert sent(ops).text == "Hi"


@pytest.mark.parametrize(
    ("ops", "error", "is_money"),
    [
        pytest.param(whole(529), "status 529", False, id="no-shape"),
        pytest.param(whole(500, error="bad"), "bad", False, id="text"),
        pytest.param(whole(200, error={"type": "a", "code": "b"}), "a b", False, id="in-a-200"),
        pytest.param(
            whole(429, error={"type": "x", "code": "insufficient_quota"}),
            "x insufficient_quota",
            True,
            id="money",
        ),
        pytest.param(stream(event(error={"code": 500})), "an error", False, id="no-words"),
        pytest.param(
            stream(event(type="error", error={"type": "overloaded_error"})),
            "overloaded_error",
            False,
            id="messages",
        ),
        pytest.param(
            stream(event(type="response.failed", response={"error": {"code": "server_error"}})),
            "server_error",
            False,
            id="responses",
        ),
        pytest.param(
            whole(429, error={"type": "x", "details": {"error_code": "billing_error"}}),
            "x billing_error",
            True,
            id="details",
        ),
        pytest.param(stream(event(type="error", code="oops")), "error oops", False, id="flat"),
        pytest.param(stream(event(error=None), event(**CHUNK)), None, False, id="none"),
    ],
)
def test_the_error(ops, error, is_money):
    found = sent(ops)

    assert (found.error, found.is_money) == (error, is_money)


@pytest.mark.parametrize(
    ("ops", "how", "has_end"),
    [
        pytest.param(whole(a=1), "complete", True, id="whole"),
        pytest.param(whole(a=1), "cut", True, id="closed-after-the-last-byte"),
        pytest.param(whole(a=1, length=99), "cut", False, id="cut"),
        pytest.param([Head(200), Body(b"{}")], "cut", False, id="chunked-and-cut"),
        pytest.param(whole(a=1, length=99), "complete", False, id="shorter-than-declared"),
        pytest.param(stream(event(**CHUNK), DONE), "abandoned", True, id="stream"),
        pytest.param(stream(DONE), "complete", False, id="nothing-but-the-mark"),
        pytest.param(stream(event(**CHUNK), *LONG, DONE), "complete", True, id="after-megabytes"),
        pytest.param(stream(*LONG, LONG[0] + DONE), "complete", True, id="in-a-long-write"),
        pytest.param(stream(event(**CHUNK)), "complete", False, id="no-last-event"),
        pytest.param(stream(event(**FINISH)), "complete", True, id="finished-without-done"),
        pytest.param(stream(event(**FAILED)), "complete", False, id="finished-by-an-error"),
        pytest.param(stream(*GZIP, fields=ENCODED), "complete", True, id="encoded"),
        pytest.param(stream(*GZIP, fields=ENCODED), "cut", False, id="encoded-and-cut"),
    ],
)
def test_the_end(ops, how, has_end):
    assert sent(ops, how).has_end is has_end


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([Head(200), Body(b"x" * 70_000), End()], id="longer-than-the-cap"),
        pytest.param(stream(*[event(**CHUNK)] * 3000), id="long-stream"),
        pytest.param([Head(200, (("content-encoding", "gzip"),)), Body(b"{}")], id="compressed"),
        pytest.param(whole(data=[]), id="another-endpoint"),
    ],
)
def test_a_text_that_cannot_be_known(ops):
    assert sent(ops).text is None
