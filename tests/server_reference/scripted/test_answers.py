from __future__ import annotations

import math

import pytest

from server_reference.scripted.answers import Answer, ErrorAnswer, ToolCall, Usage


class Nothing:
    def apply(self, script, received):
        return script


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"ttft": -1}, "ttft must be at least 0 s", id="negative-wait"),
        pytest.param({"itl": math.nan}, "itl must be at least 0 s", id="nan"),
        pytest.param({"gap": math.inf}, "gap must be at least 0 s and finite", id="for-ever"),
        pytest.param({"jitter": 2}, "jitter must be 0 to 1", id="jitter"),
        pytest.param({"split": "bytes"}, "did you mean 'byte'", id="split-name"),
        pytest.param({"split": 0}, "split must be at least 1", id="split-size"),
        pytest.param({"split": [5, 3]}, "offsets that rise", id="split-order"),
        pytest.param({"stop_reason": "end_tun"}, "did you mean 'end_turn'", id="stop-reason"),
        pytest.param({"usage": {"cache_reed": 1}}, "did you mean 'cache_read'", id="usage"),
        pytest.param(
            {"usage": {"output": -1}}, "usage: output must be at least 0", id="negative-usage"
        ),
        pytest.param({"tool_calls": [{"nam": "f"}]}, "did you mean 'name'", id="tool-call"),
    ],
)
def test_what_cannot_be_played_fails_when_it_is_defined(given, said):
    with pytest.raises(ValueError, match=said):
        Answer("x", **given)


def test_an_error_has_an_error_s_status():
    with pytest.raises(ValueError, match="200 to 599, not 42"):
        ErrorAnswer(42)


def test_plain_mappings_become_values():
    answer = Answer(tool_calls=[{"name": "f"}], usage={"output": 3, "cache_write": {"1h": 7}})

    assert answer.tool_calls == (ToolCall("f"),)
    assert answer.usage == Usage(output=3, cache_write={"1h": 7})


@pytest.mark.parametrize(
    ("answer", "stop"),
    [
        (Answer("x"), "stop"),
        (Answer(tool_calls=[ToolCall("f")]), "tool_calls"),
        (Answer("x", stop_sequence="END"), "stop_sequence"),
        (Answer("x", stop_reason="max_tokens"), "length"),
        (Answer("x", stop_reason="content_filter"), "refusal"),
    ],
)
def test_the_reason_to_stop_is_one_word_for_all_formats(answer, stop):
    assert answer.stop == stop


def test_input_is_the_sum_of_its_parts():
    assert Usage(uncached=3, cache_read=7, cache_write={"5m": 4, "1h": 5}).input == 19


def test_faults_are_put_on_with_a_bar():
    fault = Nothing()

    broken = ErrorAnswer(529) | fault | fault

    assert (broken.fault, broken.base.base) == (fault, ErrorAnswer(529))
