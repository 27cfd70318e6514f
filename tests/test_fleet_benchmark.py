"""`scripts/bench fleet`: many engines on a clock, with times that are worked out by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from benchmarks import fleet
from benchmarks.engine_own.fleet import Arrival, Fleet, Served, poisson, read_trace, summary
from server_reference.public_models import PUBLIC_MODELS
from server_reference.roofline import CHIPS, Roofline

ROOFLINE = Roofline(config=PUBLIC_MODELS["SmolLM2-135M"], chip=CHIPS["A100"])
POISSON = {"seconds": 50.0, "prompt": 100, "output": 20, "sigma": 0.8, "most": 400, "seed": 1}


def silent(text):
    """Takes no note of progress."""


def a_fleet(gpus=1, **limits):
    return Fleet(ROOFLINE, gpus=gpus, num_blocks=1000, max_num_seqs=8, **limits)


def test_a_request_alone_takes_as_long_as_its_steps():
    fleet = a_fleet()

    (one,) = fleet.serve([Arrival(2.0, 100, 3)])

    assert one.ttft == pytest.approx(ROOFLINE.seconds([(100, 100)]))
    assert fleet.gaps == [
        pytest.approx(ROOFLINE.seconds([(1, 101)])),
        pytest.approx(ROOFLINE.seconds([(1, 102)])),
    ]
    assert one.longest == max(fleet.gaps)


def test_who_comes_during_a_step_is_in_the_next_one():
    step = ROOFLINE.seconds([(100, 100)])
    fleet = a_fleet()

    _, second = fleet.serve([Arrival(0.0, 100, 1), Arrival(step / 2, 100, 1)])

    assert second.ttft == pytest.approx(step / 2 + step)


def test_a_request_goes_where_the_fewest_are():
    arrivals = [Arrival(0.0, 100, 5), Arrival(0.0, 100, 5)]

    alone, other = a_fleet(gpus=2).serve(arrivals)

    assert alone.ttft == other.ttft == pytest.approx(ROOFLINE.seconds([(100, 100)]))


def test_all_of_a_pools_blocks_are_shared_by_those_that_run():
    """The scheduler is the real one: who finds no block waits."""
    fleet = Fleet(ROOFLINE, gpus=1, num_blocks=8, watermark=0.0)

    first, second = fleet.serve([Arrival(0.0, 100, 10), Arrival(0.0, 100, 10)])

    assert second.ttft > first.last


def test_goodput_counts_who_met_both_limits():
    served = [
        Served(Arrival(0.0, 1, 5), last=1.0, ttft=0.1, longest=0.01),
        Served(Arrival(1.0, 1, 5), last=2.0, ttft=0.1, longest=0.01),
        Served(Arrival(2.0, 1, 5), last=3.0, ttft=0.9, longest=0.01),
        Served(Arrival(3.0, 1, 5), last=4.0, ttft=0.1, longest=0.90),
    ]

    found = summary(served, [0.01, 0.02, 0.03], ttft=0.5, itl=0.5, skip=1.0)

    assert found["requests/s"] == 3 / 2.0
    assert found["goodput"] == 1 / 2.0
    assert found["tokens/s"] == 20 / 4.0
    assert (found["TTFT p50"], found["TTFT p99"]) == (0.1, 0.9)
    assert (found["ITL p50"], found["ITL p99"]) == (0.02, 0.03)


def test_arrivals_repeat_and_have_the_rate_that_is_asked_for():
    one, other = (poisson(rate=40.0, **POISSON) for _ in range(2))

    assert one == other
    assert len(one) == pytest.approx(40 * 50, rel=0.05)
    assert 90 < sum(arrival.prompt for arrival in one) / len(one) < 105


def test_a_trace_is_read_as_azure_publishes_them(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:04.0000000,12,34\n"
        "2023-11-16 18:17:03.9799600,4808,10\n"
        "2023-11-16 18:17:05.0000000,5,0\n"
    )

    found = read_trace(path, speed=2.0)

    assert found == [Arrival(0.0, 4808, 10), Arrival(pytest.approx(0.01002), 12, 34)]


def test_more_gpus_serve_the_same_requests_sooner():
    arrivals = [Arrival(0.0, 100, 10)] * 32

    ends = {gpus: max(one.last for one in a_fleet(gpus=gpus).serve(arrivals)) for gpus in (1, 4)}

    assert ends[4] < ends[1] / 3


def test_the_plots_show_every_chip(tmp_path):
    sizes = replace(fleet.QUICK, plots=str(tmp_path))

    outcome = fleet.run(sizes, silent)

    lines = {
        path.name: len(ElementTree.parse(path).getroot().findall("{*}polyline"))
        for path in tmp_path.iterdir()
    }
    assert lines == {"fleet-goodput.svg": 2, "fleet-ttft.svg": 2, "fleet-itl.svg": 2}
    assert set(outcome.facts["fleets"]) == {"2 × A100"}


def test_another_fleet_is_a_command(tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.0000000,12,3\n"
        "2023-11-16 18:17:04.0000000,12,3\n"
    )

    fleet.main(["--trace", str(path), "--chip", "MI300X", "--model", "SmolLM2-135M", "--skip", "0"])

    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["chip", "asked"]
    assert row.split()[:3] == ["MI300X", "1", "2"]


@pytest.mark.parametrize(
    "name", ["gpus", "prompt", "output", "most", "rate", "seconds", "bandwidth"]
)
@pytest.mark.parametrize("value", ["0", "-1", "x"])
def test_what_no_fleet_has_is_refused(name, value, capsys):
    with pytest.raises(SystemExit, match="2"):
        fleet.main([f"--{name}", value])

    assert f"argument --{name}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a,b\n1,2\n", "line 2 of .* has no TIMESTAMP", id="columns"),
        pytest.param("TIMESTAMP,ContextTokens,GeneratedTokens\n,1,2\n", "line 2", id="no-time"),
        pytest.param(
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,x,2\n",
            "line 2 .* 'x'",
            id="no-number",
        ),
        pytest.param("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no request comes", id="empty"),
        pytest.param(
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,2\n",
            "no request comes after the 4 s of --skip",
            id="short",
        ),
    ],
)
def test_a_trace_that_is_none_is_said_to_be_none(text, said, tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(text)

    with pytest.raises(SystemExit, match="2"):
        fleet.main(["--trace", str(path)])

    assert re.search(said, capsys.readouterr().err)


def test_a_trace_that_is_not_there_is_said_to_be_none(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        fleet.main(["--trace", str(tmp_path / "none.csv")])

    assert "No such file" in capsys.readouterr().err
