"""The tool that runs the SDK tests under other versions: its own decisions, and all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tools.sdk_matrix import PAIRS, ROOT, Outcome, Pair, main, pair_of, read, table
from tools.sdk_matrix_page import PAGE

REPORT = """<testsuites><testsuite>
<testcase name="test_an_answer_comes[OpenAI]"/>
<testcase name="test_an_answer_comes[AsyncOpenAI]"><failure message="no"/></testcase>
<testcase name="test_it_parses[OpenAI]"><skipped message="not there"/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("1.109+0.125", ["openai==1.109.*", "anthropic==0.125.*"]),
        ("2.latest+1.latest", ["openai>=2,<3", "anthropic>=1,<2"]),
    ],
)
def test_a_pair_says_what_pip_is_asked_for(text, requirements):
    assert pair_of(text).requirements == requirements


@pytest.mark.parametrize("text", ["", "3", "3.latest", "3+2", "a.b+1.2", "1.2+1.2+1.2"])
def test_what_is_no_pair_is_refused(text, capsys):
    assert main([text]) == 2
    assert "is no pair of versions; write OPENAI+ANTHROPIC" in capsys.readouterr().err


def test_a_report_is_counted_by_test():
    assert read(REPORT) == {
        "an_answer_comes": Counter(passed=1, failed=1),
        "it_parses": Counter(skipped=1),
    }


def test_the_table_has_a_line_for_each_test_and_a_column_for_each_pair():
    good = Outcome(Pair("3.latest", "2.latest"), cases={"an_answer_comes": Counter(passed=2)})
    bad = Outcome(Pair("1.109", "0.125"), cases=read(REPORT))

    assert table([good, bad]).splitlines() == [
        "openai+anthropic  3.latest+2.latest  1.109+0.125",
        "an answer comes              2 pass     1 failed",
        "it parses                         -            -",
    ]
    assert (good.is_good, bad.is_good) == (True, False)


def test_a_pair_of_which_nothing_ran_is_not_good():
    assert not Outcome(Pair("1.109", "0.125")).is_good


def ran(pair, **counted):
    """An outcome as a run has it."""
    versions = f"openai {pair.openai}, anthropic {pair.anthropic}, httpx 0.28.1"
    return Outcome(pair, versions, {"an_answer_comes": Counter(counted)})


def test_one_pair_that_fails_fails_all(capsys):
    def run(pair, cache):
        is_last = pair == PAIRS[-1]
        return ran(pair, failed=1, passed=9) if is_last else ran(pair, passed=10)

    code = main([], run)

    assert code == 1
    assert "9/9 3.latest+2.latest: 1 failed, 9 passed" in capsys.readouterr().out


def test_pairs_that_pass_are_no_failure(capsys):
    assert main(["1.109+0.125"], lambda pair, cache: ran(pair, passed=1)) == 0


def test_only_a_run_of_all_pairs_is_written(capsys):
    assert main(["--write", "1.109+0.125"]) == 2
    assert "--write tells of all pairs; name none of them" in capsys.readouterr().err


def test_a_failed_run_is_not_written(capsys):
    before = PAGE.read_text()

    assert main(["--write"], lambda pair, cache: ran(pair, failed=1)) == 1
    assert PAGE.read_text() == before


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("pair", [str(pair) for pair in PAIRS])
def test_the_tests_pass_under_every_pair_of_versions(pair):
    ran = subprocess.run(
        [sys.executable, "-m", "tools.sdk_matrix", pair],
        cwd=ROOT,
        env=os.environ | {"CI": ""},
        capture_output=True,
        text=True,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
