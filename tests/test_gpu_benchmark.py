"""The GPU's benchmark: all of it in the interpreter, and what only a GPU's run would show."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

import tests.server_reference.kernels.interpreted  # noqa: F401  (before triton is imported)

from benchmarks.gpu.__main__ import main  # isort: skip
from benchmarks.gpu.cases import Case  # isort: skip
from benchmarks.gpu.checks import checked  # isort: skip
from benchmarks.gpu.device import Interpreted, why_not_interpreted  # isort: skip
from benchmarks.gpu.engine import least_seconds, requests  # isort: skip
from benchmarks.gpu.figures import Check, Figure, Target  # isort: skip
from benchmarks.gpu.report import Report, page  # isort: skip
from benchmarks.gpu.sizes import FULL  # isort: skip
from benchmarks.gpu.stages import STAGES, run  # isort: skip
from server_reference.kernels.manifest import TARGETS  # isort: skip
from server_reference.roofline import CHIPS, Roofline  # isort: skip
from tests.layers import ROOT  # isort: skip

WHOLE = """
import runpy, sys
from tests.server_reference.engine.few_packages import refuse_others
refuse_others({"server_reference", "benchmarks"})
sys.argv = ["gpu", "--interpret", "--output", sys.argv[1]]
runpy.run_module("benchmarks.gpu", run_name="__main__")
"""
LAUNCHED = """
import sys, torch
from benchmarks.gpu.checks import launched
from benchmarks.gpu.sizes import FULL
from server_reference.kernels.manifest import rows
known, asked = rows(sys.argv[1]), launched(FULL, torch.bfloat16, sys.argv[1])
print(len([row for row in asked if row not in known]), len(set(known) - set(asked)))
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The whole command, where only what the engine needs can be imported: its results."""
    folder = tmp_path_factory.mktemp("gpu")
    done = started(WHOLE, str(folder), TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr
    (data,), (text,) = folder.glob("*.json"), folder.glob("*.md")
    return json.loads(data.read_text()), text.read_text()


def started(code, *arguments, **environment):
    """A Python of its own, which interprets only if it is told to."""
    inherited = {name: os.environ[name] for name in os.environ if name != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def a_case(got, *, allowed=(0.0, 0.1)):
    return Case("kernel", "case", lambda to: [got], lambda: [torch.tensor([1.0])], [allowed])


def a_report(**given):
    facts = {"chip": "NVIDIA X", "measured_at": "2026-01-01", "torch": "2"}
    return Report(facts, {}, **given)


def test_every_stage_runs_with_nothing_else_installed(ran):
    found, _ = ran

    assert (found["failed"], found["left_out"]) == ({}, [])
    assert list(found["seconds"]) == list(STAGES)


def test_every_kernel_agrees_with_its_twin(ran):
    found, _ = ran

    assert [one for one in found["checks"] if one["wrong"]] == []
    assert len({one["kernel"] for one in found["checks"]}) == 9


def test_every_time_is_beside_another(ran):
    found, _ = ran

    stages = {one["stage"] for one in found["figures"] if one["beside"] or one["share"] is not None}
    assert {"decode attention", "prefill attention", "decode step", "engine", "draws"} <= stages


def test_the_page_names_chip_versions_and_date(ran):
    found, text = ran

    assert found["facts"]["measured_at"] in text
    assert f"torch {torch.__version__}" in text
    assert text.startswith("# none: interpreted\n")


@pytest.mark.parametrize("target", TARGETS)
def test_the_checks_launch_every_row_of_the_manifest_and_no_other(target):
    done = started(LAUNCHED, target)

    assert (done.stdout.split(), done.stderr) == (["0", "0"], "")


@pytest.mark.parametrize(
    ("got", "wrong"),
    [
        pytest.param(torch.tensor([1.05]), "", id="allowed"),
        pytest.param(torch.tensor([1.5]), "off by 5 times what is allowed", id="too-far"),
        pytest.param(torch.tensor([torch.nan]), "off by inf times what is allowed", id="nan"),
        pytest.param(torch.tensor([1.0, 1.0]), "off by inf times what is allowed", id="shape"),
    ],
)
def test_a_kernel_may_be_off_by_its_rounding_only(got, wrong):
    assert checked(Interpreted(), "model", a_case(got)).wrong == wrong


def test_a_kernel_that_raises_is_wrong():
    def fails(to):
        raise ValueError("no such tile")

    case = Case("kernel", "case", fails, list, [])

    assert checked(Interpreted(), "model", case).wrong == "ValueError: no such tile"


def test_a_missed_target_is_told_and_nothing_more():
    target = Target(value=0.4, least=0.55, what="speed")
    report = a_report(figures=[Figure(stage="s", name="n", value=2.0, unit="us", target=target)])

    assert report.wrongs == []
    assert "| s | n | 2 us |  |  | speed: 0.4, at least 0.55 | missed |" in page(report)


def test_what_cannot_be_measured_is_told():
    report = a_report(figures=[Figure(stage="s", name="n", value=None, unit="us")])

    assert "| s | n | none |" in page(report)


def test_a_wrong_kernel_and_a_failed_stage_are_wrong():
    checks = [
        Check(kernel="k", case="c", error=2.0, wrong="off"),
        Check(kernel="k", case="d", error=0),
    ]
    report = a_report(checks=checks, failed={"engine": "OutOfMemoryError: no"})

    assert report.wrongs == ["k (c): off", "engine: OutOfMemoryError: no"]
    assert "1 of 2 agree" in page(report)


def test_the_requests_are_those_of_nano_vllm():
    its = requests(FULL)

    assert (len(its), sum(output for _, output in its)) == (256, 133_966)


@pytest.mark.parametrize(("chip", "least", "most"), [("H200", 36e3, 43e3), ("A100", 15e3, 18e3)])
def test_their_roofline_is_as_known(chip, least, most):
    roofline = Roofline(config=FULL.model, chip=CHIPS[chip])
    lens = [(len(prompt), output) for prompt, output in requests(FULL)]

    assert least < 133_966 / least_seconds(roofline, lens, FULL.max_step_tokens) < most


@pytest.mark.parametrize(
    ("version", "is_refused"), [("3.8.0", True), ("3.9.0", False), ("3.10.1+git", False)]
)
def test_an_interpreter_that_is_wrong_is_not_used(version, is_refused):
    why = why_not_interpreted(version)

    assert (why is not None) == is_refused
    assert why is None or "triton 3.8.0" in why


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_where_there_is_no_gpu_it_says_so(capsys):
    assert run(interpreted=False, only=None, minutes=8, folder=None) == 2
    assert "--interpret" in capsys.readouterr().err


def test_an_unknown_stage_is_told(capsys):
    assert run(interpreted=True, only=["engines"], minutes=8, folder=None) == 2
    assert "there is no stage 'engines', only compile" in capsys.readouterr().err


def test_no_stage_begins_too_late(tmp_path, capsys):
    assert run(interpreted=True, only=["engine"], minutes=0.5, folder=None) == 0
    assert "left out, as no time was left: engine" in capsys.readouterr().out


def test_without_torch_it_says_what_it_needs():
    """In a Python that finds the standard library alone."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "benchmarks.gpu"],
        cwd=ROOT,
        env={name: os.environ[name] for name in os.environ if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "has no torch; this needs torch, triton, numpy" in done.stderr


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "x"])
def test_a_limit_that_leaves_out_everything_is_refused(minutes, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--interpret", "--minutes", minutes])

    assert "argument --minutes" in capsys.readouterr().err
