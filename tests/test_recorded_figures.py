"""Figures in the text of the docs are those that `scripts/bench --save` recorded."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks import engine
from benchmarks.figures import RESULTS
from tests.layers import ROOT

DOCS = ROOT / "docs"
BATCHES = "continuous / static batches"


def recorded(benchmark):
    record = json.loads((RESULTS / f"{benchmark}.json").read_text())
    return record, {one["name"]: one for one in record["figures"]}


@pytest.mark.parametrize("page", ["explanation/continuous-batching.md", "reference/benchmarks.md"])
def test_what_continuous_batching_is_worth_is_told_as_it_was_measured(page):
    _, figures = recorded("engine")
    text = (DOCS / page).read_text()

    for name in (f"{BATCHES}: speed", f"{BATCHES} of one shape: speed", f"{BATCHES}: steps"):
        assert re.search(rf"\b{figures[name]['value']:.2f}\b", text), name
    speed = figures[f"{BATCHES}: speed"]
    assert ("is missed" in text) == (speed["value"] < speed["floor"])


def test_the_gaps_beside_a_long_prompt_are_told_as_they_were_measured():
    _, figures = recorded("engine")
    text = (DOCS / "explanation/continuous-batching.md").read_text()

    gap = "a long prompt beside decodes: longest ITL / median"
    assert f"was {figures[gap]['value']:.2f} times their median gap" in text
    assert f"and {figures[f'{gap} without it']['value']:.2f} times the median without it" in text


def test_the_plot_of_goodput_is_the_recorded_one():
    record, _ = recorded("engine")

    plot = engine._plot(record["sizes"]["parts"]["goodput"], record["facts"]["goodput"])

    assert (DOCS / "explanation/goodput.svg").read_text() == plot


def test_a_full_step_beside_one_of_a_single_row_is_told_as_it_was_measured():
    costs = recorded("engine")[0]["facts"]["step costs"]
    seconds = dict(zip(costs["tokens"], costs["seconds"], strict=True))

    text = (DOCS / "reference/benchmarks.md").read_text()

    assert f"a step of 32 rows takes {seconds[32] / seconds[1]:.1f} times as long" in text


def test_the_table_of_divergences_is_what_was_measured():
    _, figures = recorded("numerics")
    found = re.search(
        r"^\| weights \| KV .*?\n\n",
        (DOCS / "reference/benchmarks.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    rows = [re.findall(r"[^|]+", line) for line in found[0].splitlines()[2:] if line]

    told = {}
    for weights, kv, *cells in rows:
        name = weights.strip().split(" (")[0]
        name = re.sub(r"^quantised to (int\d) .*", r"--quantize \1", name)
        for reading, cell in zip(("token by token", "whole"), cells, strict=False):
            told[f"weights {name}, KV {kv.strip()}, {reading}: mean KL to fp32"] = cell.strip()

    assert told == {
        name: f"{one['value']:.{len(told.get(name, '0.0')) - 2}f}" for name, one in figures.items()
    }
