"""The rules that `conftest.py` adds to pytest, seen from outside: each runs a small suite."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.layers import ROOT

SUITE = """
import pytest

@pytest.mark.smollm2
@pytest.mark.skip(reason="no weights")
def test_model(): pass

@pytest.mark.skip(reason="no GPU")
def test_other(): pass

@pytest.mark.sdk
@pytest.mark.xfail(strict=True)
def test_known(): assert False

@pytest.mark.long
def test_long(): pass

def test_short(): pass
"""


@pytest.fixture
def suite(tmp_path):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(SUITE)
    return tmp_path


def summary(suite, *arguments, ci=False):
    """What the closing line counts, such as `{"passed": 1}`, and all that was printed."""
    environment = {key: value for key, value in os.environ.items() if key != "CI"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    if ci:
        environment["CI"] = "true"
    plugins = ["-p", "no:cacheprovider", "-p", "pytest_timeout"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *arguments],
        cwd=suite,
        env=environment,
        capture_output=True,
        text=True,
    )
    line = done.stdout.strip().splitlines()[-1]
    return {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", line)}, done.stdout


@pytest.mark.parametrize("mark", ["smollm2", "redis"])
def test_a_skipped_test_of_the_main_job_fails_under_ci(suite, mark):
    (suite / "tests" / "test_it.py").write_text(SUITE.replace("smollm2", mark))

    counts, output = summary(suite, ci=True)

    assert counts == {"error": 1, "passed": 1, "skipped": 1, "xfailed": 1, "deselected": 1}
    assert f"under CI a {mark} test may not be skipped" in output


def test_it_may_be_skipped_elsewhere(suite):
    counts, _ = summary(suite)

    assert counts == {"passed": 1, "skipped": 2, "xfailed": 1, "deselected": 1}


def test_all_runs_the_long_forms(suite):
    counts, _ = summary(suite, "--all")

    assert counts == {"passed": 2, "skipped": 2, "xfailed": 1}


def test_a_module_that_skips_itself_fails_under_ci(suite):
    """It would take the marks of its tests with it, unseen."""
    (suite / "tests" / "test_it.py").write_text("import pytest\npytest.importorskip('absent')\n")

    counts, output = summary(suite, ci=True)

    assert counts == {"error": 1}
    assert "no module may be skipped as a whole" in output


def test_a_warning_is_an_error(suite):
    (suite / "tests" / "test_it.py").write_text(
        "import warnings\ndef test_it(): warnings.warn('old')\n"
    )

    counts, _ = summary(suite)

    assert counts == {"failed": 1}


def test_what_cannot_be_encoded_ends_no_worker(suite):
    """A skip has its reason in a tuple, which stays one."""
    (suite / "tests" / "test_it.py").write_text(
        "import logging, pytest\n"
        "def test_logs(): logging.warning('half \\ud800')\n"
        "def test_fails(): raise ValueError('half \\udfff')\n"
        "def test_is_skipped(): pytest.skip('half \\ud800')\n"
    )

    counts, output = summary(suite, "-p", "xdist.plugin", "-n", "1")

    assert counts == {"passed": 1, "failed": 1, "skipped": 1}
    assert r"ValueError: half \udfff" in output
