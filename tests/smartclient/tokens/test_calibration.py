"""Counts corrected by what earlier calls used."""

from __future__ import annotations

from random import Random
from threading import Thread

import pytest

from smartclient.tokens import Calibrator, TokenCount, calibration_file
from smartclient.tokens.calibration import is_a_lesson
from smartclient.wire import Usage

HERE = {"provider": "anthropic", "model": "claude-opus-5"}


def a_count(tokens, *, error=0.25, kind="text"):
    return TokenCount(
        int(tokens * (1 - error)), tokens, int(tokens * (1 + error)), "heuristic", kind, tokens
    )


def taught(lessons, *, truth, seed=0, noise=0.02, error=0.25):
    """A calibrator that has seen `lessons` calls whose real tokens are `truth(estimate)`."""
    chance, calibrator = Random(seed), Calibrator()
    for _ in range(lessons):
        estimate = round(10 ** chance.uniform(2, 4.5))
        actual = round(truth(estimate) * (1 + chance.gauss(0, noise)))
        calibrator.observe(a_count(estimate, error=error), actual, **HERE)
    return calibrator


def corrected(calibrator, tokens, **given):
    return calibrator.corrected(a_count(tokens, **given), **HERE)


def test_nothing_is_corrected_before_there_is_evidence():
    counted = a_count(1000)

    assert taught(0, truth=lambda x: x).corrected(counted, **HERE) is counted
    assert taught(2, truth=lambda x: 2 * x).corrected(counted, **HERE) is counted


@pytest.mark.parametrize("tokens", [300, 3_000, 30_000])
@pytest.mark.parametrize(
    ("ratio", "intercept"),
    [(1.0, 0), (1.3, 0), (0.8, 0), (1.0, 350), (1.2, 350)],
)
def test_a_ratio_and_what_every_request_has_on_top_are_learned(ratio, intercept, tokens):
    calibrator = taught(60, truth=lambda estimate: ratio * estimate + intercept)

    found = corrected(calibrator, tokens)

    assert found.p50 == pytest.approx(ratio * tokens + intercept, rel=0.05)
    assert found.p05 < ratio * tokens + intercept < found.p95


def test_the_band_narrows_with_evidence():
    widths = []
    for lessons in (3, 10, 50):
        found = corrected(taught(lessons, truth=lambda x: 1.3 * x), 5_000)
        widths.append((found.p95 - found.p05) / found.p50)

    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < 0.25


def test_the_band_holds_nine_of_ten_later_calls():
    calibrator, chance = taught(60, truth=lambda x: 1.3 * x, noise=0.1), Random(1)
    held = 0

    for _ in range(400):
        found = corrected(calibrator, 5_000)
        held += found.p05 <= 5_000 * 1.3 * (1 + chance.gauss(0, 0.1)) <= found.p95

    assert 0.85 <= held / 400 < 1.0


def test_a_few_that_are_far_off_hardly_matter():
    clean, dirty = (taught(30, truth=lambda x: 1.3 * x) for _ in range(2))

    for _ in range(3):
        dirty.observe(a_count(5_000), 400_000, **HERE)

    assert corrected(dirty, 5_000).p50 == pytest.approx(corrected(clean, 5_000).p50, rel=0.25)


def test_a_change_for_good_is_learned():
    calibrator = taught(60, truth=lambda x: 1.0 * x)

    for _ in range(150):
        calibrator.observe(a_count(5_000), 6_500, **HERE)

    assert corrected(calibrator, 5_000).p50 == pytest.approx(6_500, rel=0.05)


def test_input_is_all_of_it_cached_or_not():
    usage = Usage(uncached=10, cache_read=900, cache_write={"5m": 80, "1h": 10})
    calibrator = Calibrator()

    for _ in range(30):
        calibrator.observe(a_count(500), usage, **HERE)

    assert corrected(calibrator, 500).p50 == pytest.approx(1000, rel=0.03)


@pytest.mark.parametrize(
    ("usage", "given"),
    [
        pytest.param(None, {}, id="no-usage"),
        pytest.param(Usage(output=9), {}, id="no-input"),
        pytest.param(0, {}, id="zero"),
        pytest.param(-5, {}, id="below-zero"),
        pytest.param(10**400, {}, id="more-than-there-can-be"),
        pytest.param(900, {"is_complete": False}, id="cut"),
        pytest.param(900, {"reply": {"usage": {"iterations": [{}]}}}, id="compacted"),
    ],
)
def test_what_teaches_nothing_is_passed_over(usage, given):
    calibrator = Calibrator()

    assert not calibrator.observe(a_count(500), usage, **HERE, **given)
    assert len(calibrator) == 0


@pytest.mark.parametrize(
    ("reply", "is_one"),
    [
        pytest.param({"content": [{"type": "text"}, {"type": "tool_use"}]}, True, id="tool"),
        pytest.param({"usage": {"server_tool_use": {"web_search_requests": 0}}}, True, id="none"),
        pytest.param(
            {"usage": {"server_tool_use": {"web_search_requests": 2}}}, False, id="search"
        ),
        pytest.param({"content": [{"type": "server_tool_use"}]}, False, id="server-tool"),
        pytest.param({"content": [{"type": "web_search_tool_result"}]}, False, id="its-result"),
        pytest.param({"output": [{"type": "function_call"}]}, True, id="function"),
        pytest.param({"output": [{"type": "web_search_call"}]}, False, id="hosted"),
        pytest.param({"output": [{"type": "compaction"}]}, False, id="compaction"),
        pytest.param({"context_management": {"applied_edits": [1]}}, False, id="edited"),
        pytest.param({"context_management": {"applied_edits": []}}, True, id="not-edited"),
        pytest.param({"content": "x", "output": [None], "usage": None}, True, id="odd"),
    ],
)
def test_a_reply_teaches_if_its_input_is_that_of_its_request(reply, is_one):
    assert is_a_lesson(reply) is is_one


def test_models_providers_and_kinds_are_kept_apart():
    calibrator = taught(30, truth=lambda x: 2 * x)

    assert calibrator.corrected(a_count(500), provider="bedrock", model="claude-opus-5").p50 == 500
    assert calibrator.corrected(a_count(500), provider="anthropic", model="claude-x").p50 == 500
    assert corrected(calibrator, 500, kind="tools").p50 == 500


def test_one_model_has_many_names():
    calibrator = taught(30, truth=lambda x: 2 * x)

    found = calibrator.corrected(
        a_count(5000), provider="anthropic", model="us.anthropic.claude-opus-5-v1:0"
    )

    assert found.source == "heuristic"  # another name, so nothing is assumed
    named = calibrator.corrected(a_count(5000), provider="anthropic", model="a/claude-opus-5")
    assert named.source == "calibrated"


def test_the_ones_unused_for_longest_are_forgotten():
    calibrator = Calibrator(size=10)

    for number in range(100):
        calibrator.observe(a_count(500), 600, provider="p", model=f"m{number}")

    assert len(calibrator) == 10


def test_threads_may_share_one():
    calibrator = Calibrator()

    def work():
        for _ in range(200):
            calibrator.observe(a_count(500), 600, **HERE)
            corrected(calibrator, 500)

    threads = [Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert corrected(calibrator, 500).p50 == pytest.approx(600, rel=0.02)


def test_what_was_learned_is_kept_across_runs(tmp_path):
    calibrator = taught(30, truth=lambda x: 1.3 * x + 100)
    calibrator.save(tmp_path / "calibration.json")

    again = Calibrator.load(tmp_path / "calibration.json")

    assert corrected(again, 5_000) == corrected(calibrator, 5_000)


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param([5, 1e15, 1e-15, 5, 1, 0.1, 5], id="no-line"),
        pytest.param([1e-9, 0, 1e18, 5, 1, 0.1, 5], id="less-than-a-lesson"),
        pytest.param([5, 1, 1, 5, 1, 1e18, 5], id="off-by-more-than-a-float-holds"),
        pytest.param([0, 1, 1, 5, 1, 0.1, 5], id="of-nothing"),
    ],
)
def test_what_cannot_have_been_learned_is_refused(numbers, tmp_path):
    calibration_file.write(tmp_path / "calibration.json", [["p", "m", "text", *numbers]])

    with pytest.raises(ValueError, match="what it holds about 'm' cannot have been learned"):
        Calibrator.load(tmp_path / "calibration.json")


@pytest.mark.parametrize("seed", range(3))
def test_whatever_was_learned_can_be_kept_and_corrects(seed, tmp_path):
    chance, calibrator = Random(seed), Calibrator()
    for _ in range(400):
        used = chance.choice([1, 10**15])
        calibrator.observe(a_count(chance.choice([1, 100, 10**9])), used, **HERE)
    calibrator.save(tmp_path / "calibration.json")

    found = corrected(Calibrator.load(tmp_path / "calibration.json"), 100)

    assert 0 <= found.p05 <= found.p50 <= found.p95


def test_a_larger_file_is_loaded_as_far_as_there_is_room(tmp_path):
    calibrator = Calibrator()
    for number in range(20):
        calibrator.observe(a_count(500), 600, provider="p", model=f"m{number}")
    calibrator.save(tmp_path / "calibration.json")

    assert len(Calibrator.load(tmp_path / "calibration.json", size=5)) == 5


def test_a_size_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1 model"):
        Calibrator(size=0)
