"""N-grams looked up on a device, beside those of an index on the host."""

from __future__ import annotations

import pytest
import torch

import tests.server_reference.kernels.interpreted  # noqa: F401  (before triton is imported)

from server_reference.core import SamplingParams, Sequence  # isort: skip
from server_reference.engine.device_texts import DeviceTexts  # isort: skip
from server_reference.engine.speculation import HostTexts  # isort: skip


def a_sequence(prompt, row):
    return Sequence(
        id=str(row),
        tenant="t",
        prompt_token_ids=prompt,
        params=SamplingParams(max_tokens=8),
        arrival=row,
        row=row,
    )


@pytest.fixture
def sequences():
    prompts = [1, 2, 3, 1, 2], [5, 5, 5], [7, 8, 9]
    return [a_sequence(prompt, row) for row, prompt in enumerate(prompts)]


@pytest.fixture
def texts():
    return DeviceTexts(max_num_seqs=3, max_context=32, num_drafts=4, device=torch.device("cpu"))


def test_they_are_those_of_the_host(texts, sequences):
    wanted = [(one, 3) for one in sequences]

    assert texts.follow(wanted) == HostTexts().follow(wanted) != [[], [], []]


def test_a_text_may_be_looked_up_again_with_nothing_new_in_it(texts, sequences):
    first = texts.follow([(sequences[0], 2)])

    assert texts.follow([(sequences[0], 2)]) == first == [[3, 1]]


def test_what_is_new_is_looked_up_too(texts, sequences):
    texts.follow([(sequences[2], 4)])

    sequences[2].output_token_ids += [7, 8]

    assert texts.follow([(sequences[2], 2)]) == [[9, 7]]


def test_another_sequence_in_its_row_is_another_text(texts, sequences):
    texts.follow([(sequences[0], 2)])

    assert texts.follow([(a_sequence([4, 6, 4, 6], 0), 2)]) == [[4, 6]]


def test_what_could_not_be_sent_is_sent_again(texts, sequences):
    broken = a_sequence([2**40], 2)  # no token of any model
    with pytest.raises(OverflowError):
        texts.follow([(sequences[0], 2), (broken, 2)])

    assert texts.follow([(sequences[0], 2)]) == [[3, 1]]
