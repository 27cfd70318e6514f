"""The same text in ten languages."""

from __future__ import annotations

import pytest

from smartclient.catalog import builtin
from smartclient.cli.languages import LANGUAGES, compare
from smartclient.cli.models import FAMILIES


@pytest.fixture(scope="module")
def rows():
    return {one.text: one for one in compare("gpt-5.6-sol", builtin())}


def test_there_are_ten_languages_and_code(rows):
    assert list(rows)[:LANGUAGES][0] == "English"
    assert len(rows) > LANGUAGES
    assert "Python" in list(rows)[LANGUAGES:]


def test_languages_are_compared_with_english(rows):
    english = rows["English"]

    assert english.ratio == 1.0
    assert rows["Hindi"].ratio == rows["Hindi"].count.p50 / english.count.p50 > 1.0


def test_code_is_compared_with_as_many_characters_of_english(rows):
    english, code = rows["English"], rows["Python"]

    usual = english.count.p50 / english.characters
    assert code.ratio == pytest.approx(code.count.p50 / code.characters / usual)


def test_the_price_is_of_a_thousand_texts(rows):
    assert rows["English"].price * 1000 == rows["English"].count.p50 * 4  # $4 for a million


def test_each_family_is_shown_with_how_sure_it_is(run):
    status, out, _ = run("tokens", "--languages")

    heads = [line.partition(":") for line in out.splitlines() if line.startswith(FAMILIES)]
    assert status == 0
    assert [(model, sure.split(",")[0]) for model, _, sure in heads] == list(
        zip(FAMILIES, [" tokenizer", " heuristic", " heuristic", " heuristic"], strict=True)
    )


def test_programs_get_numbers(told):
    found = told("tokens", "--languages", "--model", "claude-opus-5")

    assert found[0] | {"p05": 0, "p50": 0, "p95": 0, "dollars_per_1000": ""} == {
        "model": "claude-opus-5", "text": "English", "characters": 579, "p05": 0, "p50": 0,
        "p95": 0, "source": "heuristic", "ratio": 1.0, "dollars_per_1000": "",
    }  # fmt: skip
