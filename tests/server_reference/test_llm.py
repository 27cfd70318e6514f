"""A model in this process: prompts of every kind in, outputs in their order."""

from __future__ import annotations

import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from server_reference import LLM, SamplingParams

GREEDY = SamplingParams(max_tokens=6, temperature=0.0)


@pytest.fixture(scope="module")
def llm():
    return LLM("tiny", dtype="fp32", num_blocks=64)


def assert_idle(llm):
    llm.engine.step()  # what ran ahead
    llm.engine.scheduler.check()
    assert not llm.engine.has_work
    assert llm.engine.stats().num_free_blocks == 64


def test_outputs_come_in_the_order_of_their_prompts(llm):
    outputs = llm.generate(["One prompt", "and another one", "One prompt"], GREEDY)

    assert [output.prompt for output in outputs] == [0, 1, 2]
    assert outputs[0].token_ids == outputs[2].token_ids != outputs[1].token_ids
    assert [output.finish_reason for output in outputs] == ["length"] * 3
    assert [output.num_prompt_tokens for output in outputs] == [10, 15, 10]
    assert_idle(llm)


@pytest.mark.parametrize(
    "prompts",
    [
        pytest.param("Hi", id="text"),
        pytest.param([72, 105], id="token-ids"),
        pytest.param(["Hi"], id="one-in-a-list"),
        pytest.param([[72, 105]], id="token-ids-in-a-list"),
    ],
)
def test_a_prompt_is_text_or_token_ids(llm, prompts):
    (output,) = llm.generate(prompts, GREEDY)

    assert output.text == llm.generate("Hi", GREEDY)[0].text
    assert output.text == bytes(output.token_ids).decode()


def test_a_conversation_goes_through_the_chat_template(llm):
    messages = [{"role": "user", "content": "Hi"}]
    prompt = [256, *b"user\nHi", 257, *b"\n", 256, *b"assistant\n"]

    one = llm.generate(messages, GREEDY)
    same, other = llm.generate([messages, "Hi"], GREEDY)

    assert one[0].token_ids == same.token_ids == llm.generate(prompt, GREEDY)[0].token_ids
    assert same.num_prompt_tokens == len(prompt)
    assert other.num_prompt_tokens == 2


def test_each_prompt_may_have_its_own_params(llm):
    outputs = llm.generate(["a", "b"], [GREEDY, SamplingParams(max_tokens=2, logprobs=1)])

    assert [len(output.token_ids) for output in outputs] == [6, 2]
    assert [len(output.logprobs) for output in outputs] == [0, 2]


def test_n_outputs_of_a_prompt_stand_beside_each_other_and_differ(llm):
    hot = SamplingParams(max_tokens=8, seed=3)

    outputs = llm.generate(["a", "b"], hot, n=3)
    alone = llm.generate("a", SamplingParams(max_tokens=8, seed=4))

    assert [output.prompt for output in outputs] == [0, 0, 0, 1, 1, 1]
    assert len({tuple(output.token_ids) for output in outputs[:3]}) == 3
    assert outputs[1].token_ids == alone[0].token_ids


def test_a_prefix_that_was_computed_is_told(llm):
    prompt = "The same forty characters as before, and more"
    llm.generate(prompt, GREEDY)

    (output,) = llm.generate(prompt, GREEDY)

    assert output.num_cached_tokens == 32


def test_no_prompts_have_no_outputs(llm):
    assert llm.generate([]) == []


@pytest.mark.parametrize(
    ("prompts", "params", "message"),
    [
        (["a", ""], GREEDY, "prompt 1 cannot be run: a prompt needs at least 1 token"),
        (["a" * 2000], GREEDY, "prompt 0 cannot be run: 2000 prompt tokens"),
        (["a", "b"], [GREEDY], "1 params were given for 2 prompts"),
        (["a"], SamplingParams(max_tokens=2, top_p=7.0), "top_p must be a number"),
        ([[1, 2], [3, 9999]], GREEDY, "prompt 1 cannot be run: the prompt names token 9999"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is(llm, prompts, params, message):
    with pytest.raises(ValueError, match=message):
        llm.generate(prompts, params)

    assert_idle(llm)


@pytest.mark.parametrize(
    "prompts",
    [
        pytest.param(None, id="nothing"),
        pytest.param(5, id="a-number"),
        pytest.param([1.5], id="a-token-that-is-no-integer"),
        pytest.param([[1, 1.5]], id="one-in-a-list"),
        pytest.param(b"Hi", id="bytes"),
        pytest.param([b"Hi"], id="bytes-in-a-list"),
        pytest.param({"role": "user", "content": "Hi"}, id="a-message-without-a-list"),
        pytest.param(["Hi", {"role": "user", "content": "Hi"}], id="one-behind-a-text"),
    ],
)
def test_what_is_no_prompt_is_refused_by_what_it_is(llm, prompts):
    with pytest.raises(TypeError, match=r"a prompt is text, a list of .*, not .* \(\w+\)"):
        llm.generate(prompts, GREEDY)

    assert_idle(llm)


@pytest.mark.parametrize("params", [[None], {"max_tokens": 2}])
def test_params_of_another_kind_are_refused(llm, params):
    with pytest.raises(TypeError, match="params must be SamplingParams"):
        llm.generate(["a"], params)


@pytest.mark.parametrize(
    "prompts",
    [
        pytest.param(np.array([72, 105]), id="an-array"),
        pytest.param(torch.tensor([[72, 105]]), id="a-batch-of-one"),
        pytest.param([np.int64(72), np.int64(105)], id="a-list-of-its-numbers"),
    ],
)
def test_token_ids_may_be_of_arrays(llm, prompts):
    (output,) = llm.generate(prompts, GREEDY)

    assert output.token_ids == llm.generate([72, 105], GREEDY)[0].token_ids


def test_threads_wait_for_each_other(llm):
    expected = [llm.generate(f"thread {at}", GREEDY)[0].token_ids for at in range(4)]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda at: llm.generate([f"thread {at}"] * 3, GREEDY), range(4)))

    assert [[one.token_ids for one in its] for its in found] == [[one] * 3 for one in expected]
    assert_idle(llm)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_is_told_how_far_it_is(llm):
    terminal, file = Terminal(), io.StringIO()

    llm.generate(["a", "b"], GREEDY, progress=terminal)
    llm.generate(["a", "b"], GREEDY, progress=file)

    *_, last = terminal.getvalue().split("\r")
    assert last == "2 of 2 outputs, 12 tokens \n"
    assert file.getvalue() == ""


def test_an_interrupt_leaves_nothing_behind(llm):
    class Interrupting(Terminal):
        def flush(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        llm.generate(["a", "b"], GREEDY, progress=Interrupting())

    assert_idle(llm)


def test_more_prompts_than_a_server_lets_wait_are_all_answered():
    llm = LLM("tiny", num_blocks=64, max_num_seqs=4)

    outputs = llm.generate(["a"] * 300, SamplingParams(max_tokens=1))

    assert {output.finish_reason for output in outputs} <= {"length", "stop"}


def test_importing_the_package_imports_no_torch():
    code = "import sys, server_reference; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
