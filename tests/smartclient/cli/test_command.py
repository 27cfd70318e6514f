"""How commands are asked for, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from smartclient.cli import command, main
from tests.smartclient.cli.written import a_claude

FULL = Path("/dev/full")


def test_it_runs_as_a_module_and_ends_quietly_when_its_reader_leaves(a_file):
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-m", "smartclient", "cost", str(a_file(a_claude()))]

    done = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, timeout=60)

    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_a_full_disk_is_a_sentence(a_file):
    arguments = [sys.executable, "-m", "smartclient", "cost", str(a_file(a_claude()))]

    with FULL.open("wb") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, timeout=60)

    assert done.returncode == 2
    assert done.stderr == b"smartclient cost: stdout cannot be written: No space left on device\n"


def test_a_terminal_obeys_nothing_in_a_complaint(run):
    status, _, err = run("tokens", "a\x1b[2Jb\n.json")

    assert (status, err.count("\n")) == (2, 1)
    assert "a\ufffd[2Jb\ufffd.json cannot be read" in err


@pytest.mark.parametrize("name", ["tokens", "cost"])
def test_help_has_examples(capsys, name):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])

    assert ended.value.code == 0
    assert f"examples:\n  smartclient {name}" in capsys.readouterr().out


def test_without_a_command_it_says_which_there_are(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])

    assert ended.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_an_interrupt_ends_it_quietly(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_catalog", interrupted)

    assert main(["tokens", "--languages"]) == 130
    assert capsys.readouterr().err == ""


def test_broken_prices_are_a_sentence(run, a_file):
    prices = a_file('{"models": [{"name": "x", "prices": {"input": -1}}]}', "prices.json")

    status, _, err = run("cost", a_file(a_claude()), "--catalog", prices)

    assert (status, err.count("\n")) == (2, 1)
    assert "prices.json: model 'x'" in err
