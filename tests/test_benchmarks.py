"""Every benchmark runs, on tiny sizes, and measures what it says; figures are not looked at."""

from __future__ import annotations

import dataclasses
import json

import pytest

from benchmarks import (
    budgets,
    connections,
    decode,
    figures,
    first_call,
    gate,
    load,
    numerics,
    paths,
    prefix,
    scripted,
)
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.figures import Figure, Outcome
from benchmarks.instructions import Counter, CountError
from benchmarks.processes import ROOT, running_upstream

A_PATH = paths.Path("calibration.plain_python", 10, "plain Python")
CHANGED = "wire.sse_burst"
PAGE = ROOT / "docs" / "reference" / "benchmarks.md"


def silent(text):
    """Takes no note of progress."""


def figure_named(outcome, name):
    return next(one for one in outcome.figures if one.name == name)


def an_entry(**counts):
    plain = dict.fromkeys(paths.PATHS, 1000) | {paths.CALIBRATION: 500}
    return gate.Entry(build="3.11.0 GCC", packages={}, counts=plain | counts)


def rows_by_name(measured, recorded):
    return {row.name: row for row in gate.compare(measured, recorded)}


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder that is the only one with commands, besides the system's."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def a_valgrind(folder, output):
    """A stand-in that counts nothing, and says what it is told to."""
    command = folder / "valgrind"
    command.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    command.chmod(0o755)


def test_a_storm_is_answered_whole():
    outcome = scripted.run(scripted.QUICK, silent)

    whole = figure_named(outcome, "anthropic, whole: CPU per request").value
    event = figure_named(outcome, "openai, streamed: CPU per event").value
    assert 0 < event < whole


@pytest.mark.sdk
def test_first_calls_are_paid_in_cpu_time():
    outcome = first_call.run(first_call.QUICK, silent)

    assert figure_named(outcome, "smartclient, chat").value > 0
    assert figure_named(outcome, "openai").value > figure_named(outcome, "bare interpreter").value


@pytest.mark.sdk
def test_every_client_brings_all_that_was_sent():
    """A batch that brings anything else raises, and so does one that the server did not see."""
    outcome = connections.run(connections.QUICK, silent)

    assert figure_named(outcome, "call: openai").value > 0
    assert figure_named(outcome, "10 openai streams, TLS").value == 1


def test_a_second_turn_is_read_from_the_cache():
    outcome = prefix.run(prefix.QUICK, silent)

    assert outcome.facts["tokens_read"] >= prefix.QUICK.prefix_tokens - 16
    assert figure_named(outcome, "second turn / cold").bar == 0.35


@pytest.mark.smollm2
def test_a_load_is_timed_with_and_without_converted_weights():
    outcome = load.run(load.QUICK, silent)

    assert [one.bar for one in outcome.figures] == [8.0, 3.0, None]
    assert all(one.value > 0 for one in outcome.figures)


def test_our_engine_decodes_as_many_steps_as_are_timed():
    tokens, seconds = decode.ENGINES["server_reference"]("tiny")(prompts=[[1, 2], [3, 4]], steps=5)

    assert tokens == 2 * 5
    assert seconds > 0


@pytest.mark.smollm2
def test_default_numerics_stay_close_to_fp32():
    outcome = numerics.run(numerics.QUICK, silent)

    assert outcome.is_held
    assert len([one for one in outcome.figures if one.bar == 0.01]) == 2
    assert figure_named(outcome, "weights fp32, KV fp32, whole: mean KL to fp32").value < 1e-7
    assert all(0 < one.value < 0.05 for one in outcome.figures if "KV bf16" in one.name)


@pytest.mark.redis
def test_processes_together_reserve_what_there_is():
    outcome = budgets.run(budgets.QUICK, silent)

    assert outcome.facts == {"redis: had room": 70, "sqlite: had room": 70}
    assert figure_named(outcome, "CPU per reservation: redis").value > 0


@pytest.mark.long
@pytest.mark.smollm2
def test_transformers_decodes_beside_our_engine():
    outcome = decode.run(decode.QUICK, silent)

    assert figure_named(outcome, "server_reference / transformers, 2 rows").value > 0


@pytest.mark.parametrize("name", paths.PATHS)
def test_a_path_can_be_run_again_and_again(name, monkeypatch):
    """Each step checks by itself that it did what it counts."""
    with running_upstream() as (url, _):
        monkeypatch.setenv("BENCHMARKS_UPSTREAM", url)
        step = paths.prepare(name)

        for _ in range(3):
            step()


@pytest.mark.parametrize("name", [*paths.PATHS, *BENCHMARKS])
def test_what_is_measured_is_on_its_page(name):
    assert f"`{name}`" in PAGE.read_text()


def test_every_path_has_a_committed_count():
    recorded = gate.read()

    assert recorded
    assert [key for key, entry in recorded.items() if set(entry.counts) != set(paths.PATHS)] == []


@pytest.mark.parametrize(
    ("count", "is_held"),
    [
        pytest.param(1000, True, id="unchanged"),
        pytest.param(1099, True, id="within-the-tolerance"),
        pytest.param(1101, False, id="beyond-it"),
        pytest.param(400, True, id="fewer"),
    ],
)
def test_a_path_is_held_to_its_baseline(count, is_held):
    rows = rows_by_name(an_entry(**{CHANGED: count}), an_entry())

    assert rows[CHANGED].is_held is is_held
    assert rows["net.pool"].is_held


def test_another_build_of_python_is_measured_by_the_calibration():
    measured = an_entry(**dict.fromkeys(paths.PATHS, 1300) | {paths.CALIBRATION: 650})

    rows = gate.compare(measured, an_entry())

    assert {row.change for row in rows} == {0.0}


def test_a_path_without_baseline_is_not_held():
    recorded = an_entry()
    del recorded.counts[CHANGED]

    rows = rows_by_name(an_entry(), recorded)

    assert not rows[CHANGED].is_held
    assert rows[CHANGED].verdict == "has no baseline"


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("false", 0)])
def test_without_valgrind_only_ci_fails(ci, code, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", ci)

    assert gate.main(update=False) == code
    assert "valgrind is missing" in capsys.readouterr().err


def test_a_python_without_baseline_passes_and_is_told(tools, monkeypatch, capsys):
    a_valgrind(tools, "never run")
    monkeypatch.setenv("CI", "true")

    assert gate.main(update=False, baseline=tools / "none.json") == 0
    assert f"no baseline for {gate.key()}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("allowed", "code", "said"),
    [
        pytest.param(1.0, 0, "", id="as-before"),
        pytest.param(0.8, 1, "net.pool: not within 10% of the baseline", id="more-than-before"),
    ],
)
def test_the_gate_fails_when_a_path_takes_more(allowed, code, said, tools, capsys):
    a_valgrind(tools, "==1== Collected : 1000000")
    counts = {name: round(1_000_000 / path.steps) for name, path in paths.PATHS.items()}
    counts["net.pool"] = round(counts["net.pool"] * allowed)
    recorded = gate.Entry(build="3.11.0 GCC", packages={}, counts=counts)
    baseline = tools / "baseline.json"
    baseline.write_text(json.dumps({gate.key(): dataclasses.asdict(recorded)}))

    assert gate.main(update=False, baseline=baseline) == code
    assert said in capsys.readouterr().err


def test_instructions_are_counted_per_step(tools):
    a_valgrind(tools, "==1== Collected : 4200")

    assert Counter({}).per_step(A_PATH) == 4200 / A_PATH.steps


def test_a_count_of_nothing_is_an_error(tools):
    a_valgrind(tools, "==1== Collected : 0")

    with pytest.raises(CountError, match="counted nothing in calibration"):
        Counter({}).per_step(A_PATH)


def test_a_path_that_fails_is_an_error_with_its_reason():
    broken = dataclasses.replace(A_PATH, name="calibration.absent")

    with pytest.raises(CountError, match="absent"):
        Counter({}).per_step(broken)


def an_outcome(value):
    one = Figure(name="second turn / cold", value=value, unit="ratio", bar=0.35, runs=7)
    return Outcome(name="prefix", sizes={"conversations": 7}, figures=[one])


@pytest.mark.parametrize(("value", "verdict"), [(0.35, "held"), (0.36, "missed")])
def test_the_table_says_whether_a_bar_is_held(value, verdict):
    outcome = an_outcome(value)

    assert figures.table([outcome]).splitlines()[1].split()[-1] == verdict
    assert outcome.is_held is (verdict == "held")


def test_kept_figures_make_the_page(tmp_path):
    figures.save(an_outcome(0.2), tmp_path)

    assert figures.read(tmp_path)[0]["figures"][0]["value"] == 0.2
    assert "| second turn / cold | 0.2 | <= 0.35 | held |" in (tmp_path / "README.md").read_text()


def test_the_committed_page_is_what_was_measured():
    page = figures.RESULTS / "README.md"

    assert page.read_text() == figures.page(figures.read()), "run scripts/bench --save"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["prefixes"], "there is no benchmark 'prefixes'", id="unknown-name"),
        pytest.param(["--quick", "--save"], "--quick measures nothing", id="quick-and-kept"),
        pytest.param(["--update"], "--update belongs to --gate", id="update-of-nothing"),
    ],
)
def test_a_command_that_cannot_be_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as refused:
        main(arguments)

    assert refused.value.code == 2
    assert message in capsys.readouterr().err
