"""The scripted server as a command."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

import pytest

from server_reference import __main__ as command_line
from tests.server_reference.scripted.raw_client import KEY, chat

TOKEN = "a-token-of-the-environment"


def run(monkeypatch, capsys, *arguments, ask=lambda lines: None):
    """Status, stdout and stderr; `ask` is called with what was printed while it serves."""
    said = []

    def wait():
        said.append(capsys.readouterr().out)
        ask(said[0].splitlines())

    monkeypatch.setattr(command_line, "_wait_for_signal", wait)
    status = command_line.main(["scripted", *arguments])
    return status, "".join(said), capsys.readouterr().err


def get(url, token=TOKEN):
    request = Request(url, headers={"authorization": f"Bearer {token}"})
    with urlopen(request, timeout=10) as reply:
        return json.load(reply)


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.json"
    path.write_text(json.dumps([{"then": "Hello", "user": "hi"}]))
    return str(path)


def test_it_plays_rules_and_is_steered(monkeypatch, capsys, rules):
    def ask(lines):
        base_url, admin_url = (line.rpartition(" ")[2] for line in lines)
        with urlopen(Request(f"{base_url}/v1/chat/completions", chat()), timeout=10) as reply:
            assert json.load(reply)["choices"][0]["message"]["content"] == "Hello"
        assert get(f"{admin_url}/counters")["requests"] == 1

    monkeypatch.setenv("SCRIPTED_ADMIN_TOKEN", TOKEN)
    status, said, _ = run(monkeypatch, capsys, "--rules", rules, ask=ask)

    assert status == 0
    assert TOKEN not in said


def test_a_token_is_made_up_and_printed(monkeypatch, capsys):
    def ask(lines):
        _, admin_url, token = (line.rpartition(" ")[2] for line in lines)
        assert get(f"{admin_url}/clock", token)["is_manual"]

    monkeypatch.delenv("SCRIPTED_ADMIN_TOKEN", raising=False)

    assert run(monkeypatch, capsys, "--manual-clock", ask=ask)[0] == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("{", "no JSON", id="no-json"),
        pytest.param("[" * 100_000, "no JSON", id="no-end"),
        pytest.param('["x"]', "rules[0]: a rule is an object", id="no-rule"),
        pytest.param('{"then": "x"}', "must hold a list of rules, not dict", id="no-list"),
        pytest.param('[{"then": "x", "usr": 1}]', "did you mean 'user'", id="unknown-field"),
    ],
)
def test_rules_that_cannot_be_played_are_one_sentence(monkeypatch, capsys, tmp_path, text, why):
    path = tmp_path / "rules.json"
    path.write_text(text)

    status, _, error = run(monkeypatch, capsys, "--rules", str(path))

    assert (status, len(error.splitlines())) == (2, 1)
    assert why in error


def test_a_short_token_is_refused_without_being_shown(monkeypatch, capsys):
    monkeypatch.setenv("SCRIPTED_ADMIN_TOKEN", KEY[:9])

    status, _, error = run(monkeypatch, capsys)

    assert status == 2
    assert "at least 16 characters" in error
    assert KEY[:9] not in error


def test_a_port_of_the_admin_api_that_is_none_is_one_sentence(monkeypatch, capsys):
    status, _, why = run(monkeypatch, capsys, "--admin-port", "70000")

    assert (status, why) == (2, "smartclient-server: port must be 0 to 65535, not 70000\n")
