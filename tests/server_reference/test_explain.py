from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from server_reference.__main__ import main
from server_reference.explain import table

SEQUENCE = {
    "id": "a",
    "tenant": "",
    "start": 3,
    "num_tokens": 1,
    "num_drafts": 0,
    "blocks": [],
    "num_shared": 0,
    "why": "decode",
}
STEP = {
    "number": 7,
    "at": 1.5,
    "duration": 0.25,
    "scheduled": [SEQUENCE],
    "num_waiting": 1,
    "waiting": [{"id": "b", "tenant": "", "num_tokens": 9, "why": "no free slot"}],
    "preempted": [],
}


@contextmanager
def answering(status, body):
    """A server that answers everything the same, and keeps what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("x-admin-key")))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


def told(body, *arguments, status=200):
    with answering(status, json.dumps(body).encode()) as (url, asked):
        code = main(["explain", "--url", url, *arguments])
    return code, asked


def test_steps_are_a_table_each(capsys):
    code, asked = told({"engines": [[STEP]]}, "--last", "3")

    head, names, decode, waiting, _ = capsys.readouterr().out.split("\n")[:5]
    assert code == 0
    assert asked == [("/debug/steps?last=3", None)]
    assert head.startswith("step 7 at 1.500 s, took 250.0 ms")
    assert names.split() == ["sequence", "tokens", "from", "why"]
    assert decode.split() == ["a", "1", "3", "decode"]
    assert waiting.split(maxsplit=1) == ["b", "waits: no free slot"]


def test_who_waits_beyond_those_that_are_told_of_is_counted():
    lines = list(table([[STEP | {"num_waiting": 1204}]]))

    assert lines[0].endswith("; 1,204 waiting")
    assert lines[-2] == "  and 1,203 more, which wait too"


def test_the_key_of_the_environment_is_sent(monkeypatch):
    monkeypatch.setenv("SMARTCLIENT_ADMIN_KEY", "sesame")

    _, asked = told({"engines": []})

    assert asked == [("/debug/steps?last=10", "sesame")]


def test_json_is_a_line_per_step(capsys):
    told({"engines": [[STEP, STEP], None]}, "--json")

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"engine": 0, **STEP}] * 2


def test_everything_that_there_is_to_know_is_shown():
    sequence = SEQUENCE | {
        "tenant": "ann",
        "num_drafts": 4,
        "num_shared": 12,
        "blocks": list(range(9)),
    }
    step = STEP | {"scheduled": [sequence], "preempted": ["z"], "duration": None}

    lines = "\n".join(table([[step]]))

    for said in (
        "under way",
        "preempted: z",
        "ann",
        "0 1 2 3 4 5 and 3 more",
        "12",
        "no free slot",
    ):
        assert said in lines


@pytest.mark.parametrize(
    ("engines", "said"),
    [
        pytest.param([None], "the engine does not answer", id="silent"),
        pytest.param([[]], "no step yet", id="none"),
        pytest.param([[], []], "engine 1", id="several"),
    ],
)
def test_an_engine_without_steps_is_told(engines, said):
    assert said in "\n".join(table(engines))


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        pytest.param(401, {"error": {"message": "no admin"}}, "refuses: no admin", id="wrong-key"),
        pytest.param(404, {"error": {"message": "there is no"}}, "an older one", id="old-server"),
        pytest.param(400, {"error": {"message": "last must"}}, "400: last must", id="bad-number"),
        pytest.param(502, "?", "answered 502: Bad Gateway", id="a-proxy"),
        pytest.param(200, {"steps": []}, "no server of this kind", id="another-server"),
        pytest.param(200, [], "no server of this kind", id="another-json"),
        pytest.param(200, {"engines": "x"}, "no server of this kind", id="other-engines"),
        pytest.param(200, {"engines": [[{}]]}, "no server of this kind", id="other-steps"),
    ],
)
def test_a_server_that_does_not_tell_is_one_sentence(status, body, said, capsys):
    code, _ = told(body, status=status)

    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        pytest.param("http://127.0.0.1:1", "no server answers at", id="nobody"),
        pytest.param("ftp://127.0.0.1", "must begin with http://", id="no-http"),
    ],
)
def test_an_address_without_a_server_is_one_sentence(url, said, capsys):
    assert main(["explain", "--url", url]) == 2

    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        pytest.param("http://[::1", "--url cannot be read: Invalid IPv6 URL", id="half-an-address"),
        pytest.param("http://a:secret@host", "--url may hold no user or password", id="password"),
        pytest.param("http://secret@host", "--url may hold no user or password", id="user"),
    ],
)
def test_an_address_that_cannot_be_asked_is_one_sentence_without_secrets(url, said, capsys):
    assert main(["explain", "--url", url]) == 2

    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith(f"smartclient-server: {said}")
    assert "secret" not in sentence


@pytest.mark.parametrize("key", ["line\nbreak", "ключ"])
def test_a_key_that_no_header_carries_is_named_by_its_variable(key, monkeypatch, capsys):
    monkeypatch.setenv("SMARTCLIENT_ADMIN_KEY", key)

    assert main(["explain"]) == 2

    said = capsys.readouterr().err
    assert said.startswith("smartclient-server: SMARTCLIENT_ADMIN_KEY holds what no header carries")
    assert key not in said
