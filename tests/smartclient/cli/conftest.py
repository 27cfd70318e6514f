"""Runs a command as a terminal would."""

from __future__ import annotations

import io
import json

import pytest

from smartclient.cli import main


@pytest.fixture
def run(capsys):
    """Calls the command line; the status, what it printed, and what it complained."""

    def command(*arguments):
        status = main([str(one) for one in arguments])
        said = capsys.readouterr()
        return status, said.out, said.err

    return command


@pytest.fixture
def told(run):
    """The same with `--json`, for a command that goes well: what it told."""

    def command(*arguments):
        status, out, err = run(*arguments, "--json")
        assert (status, err) == (0, "")
        return json.loads(out)

    return command


@pytest.fixture
def a_file(tmp_path):
    """Writes a file: of text, of bytes, or of JSON."""

    def write(content, name="request.json"):
        data = content if isinstance(content, bytes | str) else json.dumps(content)
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


@pytest.fixture
def stdin(monkeypatch):
    def given(text):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return given
