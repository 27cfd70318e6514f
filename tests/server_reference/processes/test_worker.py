"""The loop of the engine's process, played in this one over a socket pair."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from server_reference.core import GenerateRequest, Grammar, SamplingParams
from server_reference.processes.compiling import Compiling
from server_reference.processes.frames import (
    Explain,
    Explained,
    FrameBuffer,
    Stop,
    Work,
    frame,
    from_engine,
)
from server_reference.processes.worker import Channel, Worker
from tests.server_reference.processes.fake_worker import RAISE, REFUSE, CountingEngine


def a_request(id, *, first=1, grammar=None):
    held = None if grammar is None else Grammar(kind="regex", source=grammar)
    params = SamplingParams(max_tokens=10, grammar=held)
    return GenerateRequest(id=id, tenant="t", prompt_token_ids=[first], params=params)


class Front(CountingEngine):
    """An engine during whose steps the front sends what `script` says, one entry a step."""

    def __init__(self, script):
        super().__init__(pace=0.0)
        self.ours, self.theirs = socket.socketpair()
        self._script = list(script)

    def step(self):
        self.send(*self._script.pop(0))
        return super().step()

    def send(self, *messages):
        for message in messages:
            self.ours.sendall(frame(message))

    def play(self, *first):
        """Run the loop until `Stop`; its status, and what it told of each step."""
        with self.ours, self.theirs, closing(Compiling(self.grammars)) as compiling:
            self.send(*first)
            status = Worker(Channel(self.theirs), self, compiling).run()
            self.grammars.may_go.set()
            bodies = FrameBuffer().feed(self.ours.recv(1 << 20))
        return status, [from_engine(body) for body in bodies]


def texts(steps):
    return [{update.id: update.text for update in step.updates} for step in steps]


def test_a_sequence_aborted_during_a_step_is_gone_before_the_next():
    """A client that disconnects frees its KV blocks within one step."""
    front = Front([[Work([], ["a"])], [Stop()]])

    _, steps = front.play(Work([a_request("a"), a_request("b")], []))

    assert texts(steps) == [{"a": "1", "b": "1"}, {"b": "2"}]
    assert [step.stats.num_free_blocks for step in steps] == [6, 7]


def test_a_sequence_that_comes_during_a_step_is_in_the_next():
    front = Front([[Work([a_request("b")], [])], [Stop()]])

    _, steps = front.play(Work([a_request("a")], []))

    assert texts(steps) == [{"a": "1"}, {"a": "2", "b": "1"}]


def test_a_request_that_cannot_run_is_told_from_one_that_failed():
    front = Front([[Stop()]])

    _, (step,) = front.play(Work([a_request("a", first=REFUSE), a_request("b")], []))

    refused = step.updates[0]
    assert (refused.id, refused.finish_reason) == ("a", "invalid")
    assert "200 tokens" in refused.error


@pytest.mark.parametrize(
    ("failing", "status"), [pytest.param(2, 0, id="twice"), pytest.param(3, 1, id="three-times")]
)
def test_three_failed_steps_in_a_row_end_the_loop(failing, status):
    again = [Work([a_request("a", first=RAISE)], [])]
    front = Front([again] * (failing - 1) + [[Stop()]])

    ended, steps = front.play(*again)

    assert ended == status
    assert [step.updates[-1].finish_reason for step in steps] == ["error"] * failing


def test_steps_are_told_between_two_of_them():
    front = Front([[Explain(5)], [Stop()]])

    _, told = front.play(Work([a_request("a")], []))

    (explained,) = [one for one in told if isinstance(one, Explained)]
    assert [step.number for step in explained.steps] == [1]
    assert told.index(explained) == 1  # after the first step's update, before the second's


def test_steps_are_told_while_there_is_no_work():
    _, told = Front([]).play(Explain(5), Stop())

    assert told == [Explained([])]


def test_nobody_waits_for_the_grammar_of_another():
    front = Front([[], [], [Stop()]])

    _, steps = front.play(Work([a_request("a", grammar="slow"), a_request("b")], []))

    assert texts(steps) == [{"b": "1"}, {"b": "2"}, {"b": "3"}]


@pytest.mark.parametrize(
    ("grammar", "text", "error"),
    [
        pytest.param("good", "1", None, id="good"),
        pytest.param("bad", "", "it is bad", id="bad"),
        pytest.param("worse", "", "the regex made its compiler fail", id="panic"),
    ],
)
def test_a_request_joins_once_its_grammar_is_there(grammar, text, error):
    """Also where the loop has nothing else to do."""
    front = Front([[], [Stop()]])
    front.grammars.may_go.set()

    _, steps = front.play(
        Work([a_request("a", grammar=grammar), a_request("b", grammar="good")], [])
    )

    update, *_ = [one for step in steps for one in step.updates if one.id == "a"]
    assert update.text == text
    assert error is None or update.error.startswith(error)


def test_a_request_that_is_aborted_while_its_grammar_compiles_never_runs():
    front = Front([[Work([], ["a"])], [], [Stop()]])

    _, steps = front.play(Work([a_request("a", grammar="slow"), a_request("b")], []))

    assert "a" not in {id for step in texts(steps) for id in step}
