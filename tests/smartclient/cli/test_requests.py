"""Requests in files of any form, and files that hold none."""

from __future__ import annotations

import json

import pytest

from smartclient.cli import requests
from smartclient.cli.requests import UnreadableError, requests_in
from tests.smartclient.cli.written import ASKED, a_chat, a_claude, a_response


def found(path, **options):
    return [(one.endpoint, one.model, one.max_output) for one in requests_in(str(path), **options)]


def lines(*values):
    return "\n".join(json.dumps(one) for one in values)


CLAUDE = ("anthropic.messages", "claude-opus-5-5", 100)
CHAT = ("openai.chat", "gpt-5.1", None)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(a_claude(), [CLAUDE], id="messages"),
        pytest.param(a_chat(), [CHAT], id="chat"),
        pytest.param(a_chat(max_tokens=10, n=3), [(*CHAT[:2], 30)], id="several-answers"),
        pytest.param(
            a_response(max_output_tokens=7), [("openai.responses", "gpt-5.1", 7)], id="responses"
        ),
        pytest.param(ASKED, [("openai.chat", None, None)], id="a-list-of-messages"),
        pytest.param([a_chat(), a_claude()], [CHAT, CLAUDE], id="a-list-of-requests"),
        pytest.param(lines(a_chat(), a_claude()), [CHAT, CLAUDE], id="lines"),
        pytest.param(lines(a_chat()) + "\n\n\n" + lines(a_chat()) + "\n", [CHAT] * 2, id="gaps"),
        pytest.param(
            '{"input": "a\u2028b"}\r\n{"input": "a\x85b"}\r\n',
            [("openai.responses", None, None)] * 2,
            id="line-breaks-that-json-does-not-know",
        ),
        pytest.param(
            {"requests": [{"custom_id": "1", "params": a_claude()}]}, [CLAUDE], id="batch"
        ),
        pytest.param(lines({"custom_id": "1", "params": a_claude()}), [CLAUDE], id="batch-lines"),
        pytest.param("Once upon a time.", [("text", None, None)], id="text"),
        pytest.param({"colour": "red"}, [("text", None, None)], id="another-object"),
        pytest.param(b"\xef\xbb\xbf" + lines(a_chat()).encode(), [CHAT], id="utf-8-with-a-mark"),
        pytest.param(lines(a_chat()).encode("utf-16"), [CHAT], id="utf-16"),
        pytest.param(a_chat(model=7, max_tokens="9"), [("openai.chat", None, None)], id="odd"),
    ],
)
def test_a_file_holds_these_requests(a_file, content, expected):
    assert found(a_file(content)) == expected


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("/v1/chat/completions", "openai.chat"),
        ("/v1/responses", "openai.responses"),
        ("/v1/embeddings", "text"),
        ("/v1/completions", "text"),
    ],
)
def test_a_line_of_a_batch_names_its_endpoint(a_file, url, endpoint):
    line = {"custom_id": "1", "method": "POST", "url": url, "body": {"model": "m", "input": "Hi"}}

    [one] = requests_in(str(a_file(lines(line))))

    assert (one.endpoint, one.model, one.is_batch) == (endpoint, "m", True)


def test_whatever_it_is_it_can_be_text(a_file):
    assert found(a_file("{not json", "a"), as_text=True) == [("text", None, None)]


def test_a_dash_is_stdin(stdin):
    stdin(lines(a_chat()))

    assert found("-") == [CHAT]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", "is empty: there is nothing to count", id="empty"),
        pytest.param(" \n ", "is empty", id="blank"),
        pytest.param([], "is empty", id="no-request-in-a-list"),
        pytest.param(b"\x89PNG\r\n", "is no text: byte 0x89 at 0 is not UTF-8", id="picture"),
        pytest.param("a\0b", "is no text: there is a zero byte at 1", id="zero-byte"),
        pytest.param(
            '{"model": "m",\n "messages": [}', r"broken JSON \(line 2, column 15: .*\); --text",
            id="broken",
        ),
        pytest.param(
            lines(a_chat()) + '\n{"a": ', r"request.json:2 is broken JSON \(column 7", id="line"
        ),
        pytest.param(lines(a_chat()) + "\n7", ":2 must be a JSON object, not a num", id="number"),
        pytest.param([a_chat(), "x"], r"json\[1\] must be a request, .* not text", id="in-a-list"),
        pytest.param("[" * 100_000, "is no request: maximum recursion", id="deep"),
        pytest.param('{"a": ' + "9" * 5000 + "}", "is no request: Exceeds the limit", id="digits"),
    ],
)  # fmt: skip
def test_what_holds_no_request_is_refused_in_a_sentence(a_file, content, message):
    with pytest.raises(UnreadableError, match=message):
        found(a_file(content))


def test_a_closed_stdin_is_refused(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)

    with pytest.raises(UnreadableError, match="stdin is closed"):
        found("-")


def test_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UnreadableError, match="nowhere cannot be read: No such file"):
        found(tmp_path / "nowhere")
    with pytest.raises(UnreadableError, match="cannot be read: Is a directory"):
        found(tmp_path)


@pytest.fixture
def short(monkeypatch):
    """As if no request were longer than 300 bytes."""
    monkeypatch.setattr(requests, "LONGEST", 300)


def test_a_file_longer_than_any_request_is_refused_with_numbers(a_file, short):
    path = a_file("word " * 1000)

    with pytest.raises(UnreadableError, match="has 5,000 bytes, and a request may have 300: give"):
        found(path)


def test_a_long_file_of_lines_is_read_line_by_line(a_file, short):
    path = a_file(lines(*[a_chat()] * 50))

    assert path.stat().st_size > 3000
    assert found(path) == [CHAT] * 50


def test_a_line_longer_than_any_request_is_refused(a_file, short):
    path = a_file(lines(a_chat(), a_chat(), a_chat(), a_chat(user="x" * 400), a_chat()))

    with pytest.raises(UnreadableError, match=r"request\.json:4 has more than 300 bytes"):
        found(path)


def test_a_long_stream_of_text_is_refused_without_its_size(stdin, short):
    stdin("word " * 1000)

    with pytest.raises(UnreadableError, match="stdin has more than 300 bytes"):
        found("-")
