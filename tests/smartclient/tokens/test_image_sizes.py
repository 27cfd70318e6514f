"""The size of an image, from its head."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient.tokens.image_sizes import base64_of, image_size, size_of
from tests.smartclient.tokens.images import base64, gif, jpeg, png, webp


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(png(640, 480), id="png"),
        pytest.param(gif(640, 480), id="gif"),
        pytest.param(jpeg(640, 480), id="jpeg"),
        pytest.param(jpeg(640, 480, preview=200_000), id="jpeg-with-a-preview"),
        pytest.param(webp(b"VP8 ", 640, 480), id="webp"),
        pytest.param(webp(b"VP8L", 640, 480), id="webp-lossless"),
        pytest.param(webp(b"VP8X", 640, 480), id="webp-extended"),
    ],
)
def test_the_size_is_read(image):
    assert image_size(base64(image + bytes(3_000_000))) == (640, 480)
    assert image_size(base64(image)) == (640, 480)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("", id="empty"),
        pytest.param("%%%%", id="no-base64"),
        pytest.param("漢字", id="no-ascii"),
        pytest.param("AAAAA", id="broken-padding"),
        pytest.param(base64(b"%PDF-1.7"), id="something-else"),
        pytest.param(base64(png(0, 480)), id="no-width"),
        pytest.param(base64(png(640, 480)[:18]), id="cut-short"),
        pytest.param(base64(jpeg(640, 480)[:60]), id="jpeg-cut-short"),
        pytest.param(base64(jpeg(640, 480, preview=4_000_000)), id="behind-megabytes"),
        pytest.param(base64(b"\xff\xd8\x00\x00" + bytes(40)), id="no-segment"),
    ],
)
def test_what_is_no_whole_image_has_none(data):
    assert image_size(data) is None


@given(st.sampled_from([b"", b"\xff\xd8", b"GIF89a", b"RIFF1234WEBPVP8X"]), st.binary())
def test_no_bytes_are_an_error(head, rest):
    found = size_of(head + rest)

    assert found is None or min(found) > 0


@pytest.mark.parametrize(
    ("url", "data"),
    [
        pytest.param("data:image/png;base64,QUJD", "QUJD", id="data"),
        pytest.param("DATA:image/png;base64,QUJD", "QUJD", id="upper-case"),
        pytest.param("data:text/plain,abc", None, id="no-base64"),
        pytest.param("https://a.example/b.png", None, id="elsewhere"),
        pytest.param("data:", None, id="empty"),
    ],
)
def test_a_data_url_holds_base64(url, data):
    assert base64_of(url) == data
