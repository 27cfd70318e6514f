"""The page of faults and clients: complete, and what its runs still show."""

from __future__ import annotations

import random
import re

import pytest

from server_reference.scripted.faults.registry import PRESETS
from tools.sdk_table.__main__ import rows
from tools.sdk_table.cases import STEPS, Case
from tools.sdk_table.judge import Cell, judge
from tools.sdk_table.page import PAGE, committed, line, versions
from tools.sdk_table.rows import CASES
from tools.sdk_table.runs import Facts, Step

LINES = committed(PAGE.read_text(encoding="utf-8"))
QUICK = [
    name
    for name, case in CASES.items()
    if case.timeout is None and not case.alone and "pause" not in case.plan
]
"""Those that neither wait out a limit nor need the machine to themselves."""
SAMPLE = random.Random(3).sample([n for n in QUICK if "waiting" not in LINES.get(n, "")], 12)


def majors(text: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+) (\d+)\.\d+\.\d+", text))


def test_every_preset_has_its_row_and_its_case():
    assert list(LINES) == list(PRESETS)
    assert sorted(CASES) == sorted(PRESETS)


def test_the_page_was_run_with_these_versions():
    [told] = re.findall(r"^Run with .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    installed = " ".join(f"{package} {number}" for package, number in versions().items())
    assert majors(told) == majors(installed)


def test_our_client_does_nothing_wrong():
    ours = {name: row.rsplit(" | ", 1)[1] for name, row in LINES.items()}

    assert {name: cell for name, cell in ours.items() if cell.startswith("✗")} == {}


def test_every_step_is_explained_on_the_page():
    page = PAGE.read_text(encoding="utf-8")

    assert [word for word in STEPS if f"*{word}* is" not in page] == []


@pytest.mark.sdk
def test_rows_of_a_sample_are_what_runs_show(capsys):
    assert {one.name: line(one) for one in rows(SAMPLE)} == {name: LINES[name] for name in SAMPLE}


@pytest.mark.sdk
@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_row_is_what_runs_show():
    assert {one.name: line(one) for one in rows(list(PRESETS))} == LINES


# How facts are judged.

WHOLE = Step("answer", attempts=1, had_end=True)


def cell(case: Case, *steps: Step, usual=(), is_ours=False, **facts: object) -> Cell:
    return judge(case, Facts(list(steps), **facts), "openai.chat", usual, is_ours=is_ours)


@pytest.mark.parametrize(
    ("case", "step", "phrase"),
    [
        pytest.param(Case(), WHOLE, "✓ whole answer", id="answered"),
        pytest.param(
            Case(attempts=2), Step("answer", attempts=2), "✓ whole answer at attempt 2", id="again"
        ),
        pytest.param(Case(attempts=2), WHOLE, "✗ whole answer", id="not-tried-again"),
        pytest.param(Case(right="error"), WHOLE, "✗ whole answer, no error", id="too-late"),
        pytest.param(
            Case(right="error"), Step("answer"), "✗ no error, as if whole", id="without-its-end"
        ),
        pytest.param(
            Case(right="error"),
            Step("error", error="E", status=429, has_part=True, attempts=3),
            "✓ `E` 429 with the part after 3 attempts",
            id="own-error",
        ),
        pytest.param(
            Case(right="error"),
            Step("foreign", error="x.E", attempts=1),
            "✗ `x.E`, not its own",
            id="foreign-error",
        ),
        pytest.param(
            Case(patience=2.0), Step("waiting"), "✗ still waiting after 2 s", id="waiting"
        ),
        pytest.param(Case(status=413, right="error"), Step("error", error="E"), "✗ `E`", id="413"),
    ],
)
def test_a_step_in_words(case, step, phrase):
    assert str(cell(case, step)) == phrase


def test_what_the_verdict_names_is_wrong_unless_it_is_usual():
    assert cell(Case(), WHOLE, findings=("a", "b"), usual=["b"]) == Cell(
        "✗", "whole answer; verdict: a"
    )
    assert cell(Case(), WHOLE, findings=("b",), usual=["b"]) == Cell("✓", "whole answer")


def test_what_our_client_lacks_is_not_yet_wrong():
    case = Case(right="error", later="budgets")

    assert cell(case, WHOLE, is_ours=True) == Cell("not yet", "(budgets): whole answer, no error")
    assert cell(case, WHOLE).mark == "✗"
    assert cell(case, Step("error", error="E", attempts=1), is_ours=True) == Cell("✓", "`E`")


def test_connections_keys_and_gaps_are_judged():
    assert cell(Case(connections=1), WHOLE, connections=2).phrase == "whole answer; 2 connections"
    assert cell(Case(connections=1), WHOLE, connections=1).mark == "✓"
    assert cell(Case(keyed=True), WHOLE, keys={"k"}).mark == "✓"
    assert cell(Case(keyed=True), WHOLE, keys={None}).mark == "✗"
    assert cell(Case(paced=1.0), WHOLE, gap=0.5).phrase == "whole answer; did not slow down"


@pytest.mark.parametrize("case", [{"plan": "dance"}, {"right": "fine"}, {"right": {"*": "ok"}}])
def test_a_case_with_unknown_words_is_refused(case):
    with pytest.raises(ValueError, match="known are"):
        Case(**case)
