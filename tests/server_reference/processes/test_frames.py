from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_reference.config import EngineConfig
from server_reference.core import (
    EngineStats,
    GenerateRequest,
    SamplingParams,
    SequenceUpdate,
    StageTimes,
    TokenLogprob,
)
from server_reference.processes.frames import (
    FrameBuffer,
    Hello,
    Loading,
    Ready,
    StartFailed,
    Stepped,
    Stop,
    Work,
    frame,
    from_engine,
    to_engine,
)

STATS = EngineStats(
    num_running=1,
    num_queued=2,
    num_blocks=3,
    num_free_blocks=4,
    num_cached_blocks=5,
    steps=6,
    preemptions=7,
    prefix_tokens_queried=8,
    prefix_tokens_hit=9,
)
REQUEST = GenerateRequest(
    id="a",
    tenant="t",
    prompt_token_ids=[1, 70_000],
    params=SamplingParams(max_tokens=1, stop=("x",)),
)
UPDATE = SequenceUpdate(
    id="a",
    text="\N{GRINNING FACE}",
    token_ids=[70_000],
    num_output_tokens=1,
    times=StageTimes(queue=0.5),
    logprobs=[TokenLogprob(token_id=70_000, logprob=-0.5, top=((70_000, -0.5), (5, -1.0)))],
    prompt_logprobs=[],
)


def bodies_of(data):
    return FrameBuffer().feed(data)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(Hello(EngineConfig(num_blocks=4)), id="hello"),
        pytest.param(Work([REQUEST], ["b"]), id="work"),
        pytest.param(Stop(), id="stop"),
    ],
)
def test_the_engine_reads_what_the_front_wrote(message):
    assert [to_engine(body) for body in bodies_of(frame(message))] == [message]


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(Loading("weights"), id="loading"),
        pytest.param(Ready(4096, STATS), id="ready"),
        pytest.param(StartFailed("no such file"), id="start-failed"),
        pytest.param(Stepped([UPDATE], STATS), id="stepped"),
    ],
)
def test_the_front_reads_what_the_engine_wrote(message):
    assert [from_engine(body) for body in bodies_of(frame(message))] == [message]


@given(st.lists(st.integers(0, 60)))
def test_frames_are_found_however_the_bytes_are_split(cuts):
    messages = [Loading("a"), Loading(""), Stepped([], STATS), Loading("b" * 300)]
    stream = b"".join(frame(message) for message in messages)
    buffer, found, start = FrameBuffer(), [], 0

    for cut in [*cuts, len(stream)]:
        found += buffer.feed(stream[start : start + cut])
        start += cut

    assert [from_engine(body) for body in found] == messages
