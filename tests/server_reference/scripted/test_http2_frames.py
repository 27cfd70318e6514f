"""HTTP/2 frames and header lists as a script wants them."""

from __future__ import annotations

import pytest
from hyperframe.frame import DataFrame, GoAwayFrame, SettingsFrame

from server_reference.scripted import http2_frames
from server_reference.scripted.ops import Head


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(
            http2_frames.data_frame(5, b"more"), DataFrame(5, b"more").serialize(), id="data"
        ),
        pytest.param(
            http2_frames.goaway_frame(2**31 - 1, 11),
            GoAwayFrame(0, last_stream_id=2**31 - 1, error_code=11).serialize(),
            id="goaway",
        ),
        pytest.param(
            http2_frames.settings_frame([("MAX_FRAME_SIZE", 1), ("ENABLE_PUSH", 9)]),
            SettingsFrame(0, settings={5: 1, 2: 9}).serialize(),
            id="settings",
        ),
    ],
)
def test_frames_are_as_another_implementation_writes_them(sent, expected):
    assert sent == expected


def test_a_reply_leaves_out_what_http1_says_of_the_connection():
    head = Head(200, (("Keep-Alive", "timeout=5"), ("Content-Length", "9"), ("A", "b")))

    assert http2_frames.reply_fields(head) == [(b":status", b"200"), (b"a", b"b")]


def test_a_value_may_hold_bytes_that_are_no_text():
    head = Head(200, (("a", "\udcff"),))

    assert http2_frames.reply_fields(head)[1] == (b"a", b"\xff")


def test_a_host_goes_before_the_authority():
    fields = [(b":method", b"GET"), (b":path", b"/"), (b":authority", b"a"), (b"host", b"b")]

    assert http2_frames.request_parts(fields) == ("GET", "/", [("host", "b")])


def test_a_tunnel_has_its_authority_for_a_target():
    fields = [(b":method", b"CONNECT"), (b":authority", b"a:443")]

    assert http2_frames.request_parts(fields)[:2] == ("CONNECT", "a:443")
