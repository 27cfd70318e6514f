from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_reference.scripted.recording import (
    Exchange,
    Recording,
    Reply,
    Request,
    Write,
    redacted_writes,
)
from server_reference.scripted.request import Received

KEY = "sk-very-secret-1"


def a_reply(*writes, **fields):
    ordinary = {
        "status": 200,
        "reason": "OK",
        "headers": (("content-type", "text/plain"),),
        "after": 0.5,
        "framing": "chunked",
        "length": None,
        "ending": "end",
        "ended_after": 0.0,
    }
    return Reply(**ordinary | fields, writes=tuple(map(Write.of, writes)))


def a_recording(*exchanges):
    return Recording("https://api.example", exchanges)


@given(st.binary())
def test_a_file_holds_every_byte(data):
    half = len(data) // 2
    request = Request.of(Received("POST", "/any", body=data))
    one = Exchange(request, a_reply(data[:half], data[half:]))

    read = Write.of(data)

    assert read.data == data
    assert b"".join(write.data for write in one.reply.writes) == data


def test_what_is_saved_is_read_again(tmp_path):
    one = Exchange(Request.of(Received("POST", "/any")), a_reply(b"", b"\xff", "é".encode()))
    file = tmp_path / "new" / "calls.json"

    a_recording(one).save(file)

    assert Recording.load(file) == a_recording(one)
    assert [path.name for path in file.parent.iterdir()] == ["calls.json"]


def test_a_request_is_kept_without_secrets():
    received = Received(
        "POST",
        "/v1/messages?key=abcdefgh&beta=1",
        (("x-api-key", KEY), ("cookie", "session=0123456789"), ("x-note", f"mine is {KEY}")),
        b'{"api_key": "other", "text": "' + KEY.encode() + b' and abcdefgh"}',
    )

    kept = repr(Request.of(received))

    for secret in (KEY, "0123456789", "abcdefgh", "other"):
        assert secret not in kept
    assert "beta=1" in kept


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param([b"nothing", b" here"], [b"nothing", b" here"], id="none"),
        pytest.param([b"a " + KEY.encode(), b" b"], [b"a [redacted]", b" b"], id="in-one"),
        pytest.param(
            [b"a sk-very", b"-secret-1 b", b" c"], [b"a ", b"[redacted] b", b" c"], id="in-two"
        ),
        pytest.param(
            [b'{"password": "hun', b'ter2", "a": ', b"1}"],
            [b'{"password": "[redacted]', b'", "a": ', b"1}"],
            id="field-in-two",
        ),
        pytest.param([], [], id="empty"),
    ],
)
def test_a_secret_is_found_across_pieces_and_the_cuts_stay(pieces, expected):
    writes = redacted_writes([(0.1, piece) for piece in pieces], [KEY])

    assert [write.data for write in writes] == expected
    assert [write.after for write in writes] == [0.1] * len(pieces)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("not json", "is no recording: JSON is malformed", id="no-json"),
        pytest.param('{"upstream": "a", "exchanges": 1}', r"\$.exchanges", id="wrong-type"),
        pytest.param(
            '{"upstream": "a", "exchanges": [], "version": 9}',
            "is a recording of version 9, and version 1 is read",
            id="version",
        ),
        pytest.param('{"upstream": "a", "exchanges": [], "extra": 1}', "extra", id="unknown"),
    ],
)
def test_what_is_no_recording_is_refused_with_its_place(tmp_path, text, said):
    file = tmp_path / "calls.json"
    file.write_text(text)

    with pytest.raises(ValueError, match=said):
        Recording.load(file)
