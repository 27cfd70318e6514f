from __future__ import annotations

from itertools import count

import pytest

from server_reference.api.record import CallRecord, StageTime


def a_record():
    """A record whose clock advances by a second each time it is read."""
    ticks = count(100)
    return CallRecord("/v1/messages", clock=lambda: float(next(ticks)))


def test_a_stage_is_measured_from_the_calls_arrival():
    record = a_record()

    with record.timing("tokenize"):
        pass

    assert record.stages == {"tokenize": StageTime(1.0, 1.0)}


def test_each_stage_is_shown_once_in_milliseconds():
    record = a_record()
    record.note("gateway", 0.0, 0.00031)
    record.note("queue", 0.5, 0.25)

    assert record.server_timing() == (
        "gateway;dur=0.310;start=0.000, queue;dur=250.000;start=500.000"
    )
    record.note("decode", 1.0, 2.0)
    assert record.server_timing() == "decode;dur=2000.000;start=1000.000"
    assert record.server_timing() == ""


def test_a_stage_that_was_never_reached_is_left_out():
    record = a_record()

    record.note("decode", 1.0, None)

    assert record.stages == {}


def test_ids_differ():
    assert len({a_record().id for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("deadline", "silence", "stream", "left"),
    [
        pytest.param(None, None, False, None, id="for-ever"),
        pytest.param(9.0, None, True, 7.0, id="deadline"),
        pytest.param(9.0, 5.0, False, 3.0, id="the-earlier"),
        pytest.param(9.0, 5.0, True, 7.0, id="a-stream-is-never-silent"),
        pytest.param(None, 1.0, False, -1.0, id="over"),
    ],
)
def test_the_time_left_is_the_clients_and_the_arrivals(deadline, silence, stream, left):
    now = iter([10.0, 12.0])
    record = CallRecord("/", clock=lambda: next(now))
    record.deadline, record.silence, record.stream = deadline, silence, stream

    assert record.time_left() == left
