"""`scripts/bench engine` on tiny sizes: it measures what it says; figures are not looked at."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from xml.etree import ElementTree

import pytest

from benchmarks import engine
from benchmarks.engine_own.engines import StepCost
from benchmarks.engine_peers import environment
from benchmarks.engine_peers.workload import MOST, closed_loop
from benchmarks.figures import Figure
from benchmarks.plot import svg, ticks


def silent(text):
    """Takes no note of progress."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    plot = tmp_path_factory.mktemp("plot") / "goodput.svg"
    return engine.run(replace(engine.QUICK, plot=str(plot)), silent), plot


def test_every_bar_of_the_engine_is_measured(outcome):
    found, _ = outcome

    bars = {one.name for one in found.figures if one.bar is not None or one.floor is not None}
    assert len(bars) == 9  # without the peers
    assert all(one.value >= 0 for one in found.figures)


def test_goodput_is_plotted_by_rate_of_arrival(outcome):
    found, plot = outcome

    lines = ElementTree.parse(plot).getroot().findall("{*}polyline")
    goodput = found.facts["goodput"]
    assert len(lines) == len(goodput) == 5
    arrived = goodput.pop("all that arrive")
    assert all(
        met <= came for each in goodput.values() for met, came in zip(each, arrived, strict=True)
    )


def test_drafts_are_proposed_where_something_repeats_and_nowhere_else(outcome):
    found, _ = outcome

    proposed = {task: drafts[0] for task, drafts in found.facts["speculation"]["drafts"].items()}
    assert proposed["copying"] > 0
    assert proposed["nothing repeats"] == 0


def test_a_static_batch_of_one_shape_costs_more_than_one_that_shrinks(outcome):
    found, _ = outcome

    batching = found.facts["batching"]
    assert batching["one shape"]["steps"] == batching["static"]["steps"]
    assert batching["one shape"]["seconds"] >= batching["static"]["seconds"]


def test_continuous_batching_takes_fewer_steps_than_static_batches(outcome):
    """Counted, not timed, so that it holds on every machine."""
    found, _ = outcome

    steps = {name: one["steps"] for name, one in found.facts["batching"].items()}
    assert steps["static"] > 2 * steps["continuous"]


def test_the_loop_is_the_same_for_every_engine():
    given = {"rows": 4, "mean": 150, "sigma": 0.8, "vocabulary": [100, 200], "seed": 3}

    one, other = (list(islice(closed_loop(**given), 50)) for _ in range(2))

    assert one == other
    assert {len(request.prompt) for request in one} != {150}
    assert all(1 <= request.output <= MOST for request in one)


def test_lengths_have_the_mean_that_is_asked_for():
    given = {"rows": 0, "mean": 150, "sigma": 0.8, "vocabulary": [100, 200], "seed": 0}

    lengths = [len(request.prompt) for request in islice(closed_loop(**given), 4000)]

    assert 135 < sum(lengths) / len(lengths) < 155  # a little less, for the clipping


def test_a_steps_cost_is_between_the_ones_that_were_measured():
    cost = StepCost((1, 32, 64), (1.0, 4.0, 6.0), per_context=0.01, per_pair=0.0)

    assert cost([(1, 0)]) == 1.0
    assert cost([(1, 100)] * 32) == pytest.approx(4.0 + 32.0)
    assert cost([(48, 48)]) == 5.0
    assert cost([(96, 96)]) == 8.0


def test_peers_are_pinned_and_named_alone():
    """From whatever index pip is configured for: no file or host is named."""
    lines = environment._REQUIREMENTS.read_text().splitlines()

    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z-]+==[\d.]+", line) for line in pins)
    assert {"transformers", "llama-cpp-python"} < environment.versions().keys()


def test_an_environment_that_cannot_be_made_says_what_pip_said(tmp_path, monkeypatch):
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)

    with pytest.raises(environment.PeersError, match=r"could not be installed \(.*cmake"):
        environment.interpreter(silent)

    assert not list(tmp_path.rglob(".installed"))


@pytest.mark.parametrize(
    ("value", "verdict"), [(2.5, "held"), (2.49, "missed")], ids=["at-the-floor", "below"]
)
def test_a_floor_is_held_from_below(value, verdict):
    assert Figure(name="speed", value=value, unit="ratio", floor=2.5).verdict == verdict


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        pytest.param(4.0, [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4], id="reached"),
        pytest.param(1.325, [0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4], id="between"),
        pytest.param(0.05, [0, 0.01, 0.02, 0.03, 0.04, 0.05], id="small"),
        pytest.param(730.0, [0, 100, 200, 300, 400, 500, 600, 700, 800], id="large"),
    ],
)
def test_ticks_are_round_numbers_up_to_the_largest_value(most, expected):
    assert ticks(most) == pytest.approx(expected)


def test_a_plots_text_is_escaped_and_its_lines_stay_inside():
    drawn = svg({"a < b": [0.0, 4.0]}, at=[1.0, 2.0], title="&", x_label="x", y_label="y")

    root = ElementTree.fromstring(drawn)
    points = root.find("{*}polyline").get("points").replace(",", " ").split()
    assert all(0 <= float(one) <= 640 for one in points)
    assert "a < b" in {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
