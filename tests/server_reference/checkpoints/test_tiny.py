from __future__ import annotations

import zlib

import torch

from server_reference.checkpoints.registry import front
from server_reference.checkpoints.tiny import TINY, tiny_weights
from server_reference.models.transformer import Transformer
from tests.server_reference.models.dense import greedy
from tests.server_reference.text.texts import decoded


def test_weights_are_the_same_everywhere() -> None:
    checksum = 0
    for weight in tiny_weights(torch.float32).values():
        checksum = zlib.crc32(weight.numpy().data, checksum)

    assert checksum == 592_348_188


def test_it_has_about_a_million_weights() -> None:
    total = sum(weight.numel() for weight in tiny_weights(torch.float32).values())

    assert 500_000 < total < 1_500_000


def test_output_depends_on_the_prompt_and_is_no_single_token() -> None:
    model, tiny = Transformer(TINY, tiny_weights(torch.float32)), front("tiny")

    outputs = []
    for text in ("hello", "What is the capital of France?", "a"):
        messages = [{"role": "user", "content": text}]
        outputs.append(greedy(model, tiny.chat_template.encode(tiny.tokenizer, messages), 40))

    assert len({tuple(output) for output in outputs}) == 3
    assert all(len(set(output)) >= 5 for output in outputs)
    assert all(len(decoded(tiny.tokenizer, output)) > 20 for output in outputs)


def test_some_turns_end_by_themselves() -> None:
    model, tiny = Transformer(TINY, tiny_weights(torch.float32)), front("tiny")
    ends = tiny.tokenizer.eos_token_ids

    outputs = []
    for at in range(6):
        messages = [{"role": "user", "content": f"Question {at}"}]
        outputs.append(greedy(model, tiny.chat_template.encode(tiny.tokenizer, messages), 128))

    assert 0 < sum(bool(ends.intersection(output)) for output in outputs) < len(outputs)
