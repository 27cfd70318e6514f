"""What holds for the repository as a whole: scripts, packaging, changelog, sizes."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import tomllib

import pytest

from tests.layers import ROOT
from tools.release import fragments, newest, version

SCRIPTS = "bench check demo docs fix gpu install release test".split()
FOLDERS = "src server_reference tests tools benchmarks examples".split()
PYTHON_FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PYPROJECT = (ROOT / "pyproject.toml").read_text()

a_script = pytest.mark.parametrize("name", SCRIPTS)


def relative(path):
    return path.relative_to(ROOT).as_posix()


def test_the_scripts_are_these():
    assert sorted(path.name for path in (ROOT / "scripts").iterdir()) == SCRIPTS


@a_script
def test_a_script_is_short_and_says_its_job(name):
    lines = (ROOT / "scripts" / name).read_text().splitlines()

    assert lines[0] == "#!/bin/sh"
    assert lines[1].startswith("# ")
    assert lines[2] == "set -eu"
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 100


@a_script
def test_a_script_can_be_run(name):
    assert os.access(ROOT / "scripts" / name, os.X_OK)


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        pytest.param([], ["-n", "2", "--dist", "loadfile"], id="whole"),
        pytest.param(["--all"], ["-n", "2", "--dist", "loadfile", "--all"], id="long-forms-too"),
        pytest.param(["tests/a b.py", "-x"], ["tests/a b.py", "-x"], id="a-part"),
    ],
)
def test_only_the_whole_suite_runs_in_workers(tmp_path, given, passed_on):
    for name, job in {"scripts/install": "", ".venv/bin/python": 'printf "%s\\n" "$@"'}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{job}\n")
        (tmp_path / name).chmod(0o755)
    script = shutil.copy(ROOT / "scripts" / "test", tmp_path / "scripts" / "test")

    shown = subprocess.check_output([script, *given], text=True)

    assert shown.splitlines() == ["-m", "pytest", "--cov", "--cov-report=term", *passed_on]


def test_ci_runs_what_people_run():
    steps = (ROOT / ".ci" / "run").read_text()

    order = re.findall(r"^scripts/.*$", steps, re.MULTILINE)

    assert order == ["scripts/install", "scripts/check", "scripts/test", "scripts/bench --gate"]


def test_every_dependency_has_its_reason():
    """Beside it; a line that gathers other extras of ours needs none."""
    requirements = [
        line.strip()
        for line in PYPROJECT.splitlines()
        if re.match(r'\s+"[A-Za-z0-9_.-]+(\[.*\])?[<>=!~]', line)
    ]

    assert len(requirements) > 25
    assert [line for line in requirements if not re.search(r'", # \w', line)] == []


def test_every_extra_has_its_reason():
    extras = PYPROJECT.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    lines = extras.splitlines()

    opened = [number for number, line in enumerate(lines) if " = [" in line]

    assert len(opened) >= 5
    assert [lines[n] for n in opened if not lines[n - 1].startswith("# ")] == []


def test_tools_are_pinned():
    dev = tomllib.loads(PYPROJECT)["project"]["optional-dependencies"]["dev"]

    pinned = [line.partition("==")[0] for line in dev if "==" in line]

    assert pinned == ["ruff", "mypy"]


def test_what_is_installed_is_this_version():
    assert importlib.metadata.version("smartclient") == version(ROOT)


def test_the_changelog_is_not_ahead_of_the_version():
    assert newest((ROOT / "CHANGELOG.md").read_text()) in (None, version(ROOT))


def test_changelog_fragments_are_well_formed_and_short():
    found = [path for paths in fragments(ROOT).values() for path in paths]

    assert [relative(path) for path in found if len(path.read_text().splitlines()) > 3] == []


@pytest.mark.parametrize("package", ["src/smartclient", "server_reference"])
def test_a_package_ships_its_types(package):
    assert (ROOT / package / "py.typed").exists()


def test_no_python_file_is_longer_than_a_reader_likes():
    lengths = {relative(path): len(path.read_text().splitlines()) for path in PYTHON_FILES}

    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_no_file_is_a_drawer_for_everything():
    drawers = {"utils.py", "helpers.py", "common.py", "misc.py"}

    assert [relative(path) for path in PYTHON_FILES if path.name in drawers] == []


def test_every_python_file_annotates_the_new_way():
    """So that annotations cost nothing at import, and forward names need no quotes."""
    plain = [
        relative(path)
        for path in PYTHON_FILES
        if path.read_text().strip() and "from __future__ import annotations" not in path.read_text()
    ]

    assert plain == []
