"""The parts of an install that can be seen without one: what counts as done, and refusals."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.layers import ROOT
from tools.install import DEBIAN, INPUTS, install_debian_packages, is_installed, stamp


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose `.venv` holds the extra `test`."""
    for name in INPUTS:
        shutil.copy(ROOT / name, tmp_path)
    for name in ("scripts", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / ".venv" / ".installed").write_text(stamp(tmp_path, "test") + "\n")
    return tmp_path


def run(checkout, *arguments, **environment):
    return subprocess.run(
        ["sh", "scripts/install", *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
    )


def test_what_is_there_is_not_installed_again(checkout):
    done = run(checkout, "test")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_everything_includes_each_extra(checkout):
    (checkout / ".venv" / ".installed").write_text(stamp(checkout, "dev") + "\n")

    assert is_installed(checkout, "demo")


def test_another_extra_is_still_to_install(checkout):
    assert not is_installed(checkout, "demo")


@pytest.mark.parametrize("name", INPUTS)
def test_a_changed_requirement_is_installed(checkout, name):
    with (checkout / name).open("a") as file:
        file.write("\n# changed\n")

    assert not is_installed(checkout, "test")


def test_an_interrupted_install_does_not_count(checkout):
    (checkout / ".venv" / ".installing").touch()

    assert not is_installed(checkout, "test")


def test_a_venv_whose_python_is_gone_does_not_count(checkout):
    (checkout / ".venv" / "bin" / "python").unlink()

    assert not is_installed(checkout, "test")


def test_a_moved_checkout_does_not_count(checkout):
    moved = checkout.rename(checkout.with_name("elsewhere"))

    assert not is_installed(moved, "test")


def test_an_unknown_extra_is_refused_with_the_known_ones(checkout):
    done = run(checkout, "tests")

    assert done.returncode == 2
    assert done.stderr == "scripts/install: 'tests' is none of the extras demo, test, dev\n"


def test_without_python_one_sentence_says_so(checkout):
    done = run(checkout, "test", PYTHON="python9")

    assert done.returncode == 2
    assert done.stderr.startswith(
        "scripts/install: python9 is no Python 3.11 or later: install one"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("script", ["demo", "test"])
def test_without_the_venv_module_one_sentence_says_so(checkout, script):
    """The modules are hidden as Debian hides them: they are not there."""
    shutil.rmtree(checkout / ".venv")
    hidden = checkout / "hidden"
    hidden.mkdir()
    (hidden / "ensurepip.py").write_text("raise ImportError('No module named ensurepip')")

    done = subprocess.run(
        ["sh", f"scripts/{script}"],
        cwd=checkout,
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(hidden)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2
    assert "lacks the venv module; install it" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (checkout / ".venv").exists()


@pytest.fixture
def debian(tmp_path, monkeypatch):
    """The only folder with commands: an apt-get that writes down what it is asked for."""
    folder = tmp_path / "bin"
    folder.mkdir()
    a_command(folder, "apt-get", f'echo "$@" >> {tmp_path}/asked')
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "asked").touch()
    return folder


def a_command(folder, name, does="true"):
    command = folder / name
    command.write_text(f"#!/bin/sh\n{does}\n")
    command.chmod(0o755)


def asked_for(debian):
    return (debian.parent / "asked").read_text().splitlines()


def test_root_installs_what_debian_has_and_is_missing(debian):
    a_command(debian, "valgrind")

    install_debian_packages()

    assert asked_for(debian) == ["-qq update", "-qq -y install redis-server"]


def test_nothing_is_asked_for_when_all_is_there(debian):
    for command, _ in DEBIAN.values():
        a_command(debian, command)

    install_debian_packages()

    assert asked_for(debian) == []


def test_others_than_root_install_nothing(debian, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    install_debian_packages()

    assert asked_for(debian) == []


def test_a_package_that_cannot_be_had_is_told(debian, capsys):
    a_command(debian, "apt-get", "exit 100")

    install_debian_packages()

    assert "apt-get -qq update failed: scripts/bench --gate cannot" in capsys.readouterr().err
