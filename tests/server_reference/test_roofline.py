"""Against numbers worked out by hand, and a public benchmark's arithmetic."""

from __future__ import annotations

from dataclasses import replace
from random import randint, seed

import pytest

from server_reference.public_models import PUBLIC_MODELS
from server_reference.roofline import CHIPS, Chip, Roofline, Work

# 10 bytes a second, 100 operations a second: seconds are easy to work out.
SLOW = Chip(name="slow", memory=1e6, bandwidth=10.0, operations={"bf16": 100.0}, source="made up")

# Of each layer: qkv 8×(4+2+2) = 64, out 4×8 = 32, MLP 3×8×16 = 384 values: 480; head 8×10.
TOY = replace(
    PUBLIC_MODELS["Llama-3-8B"],
    num_layers=2,
    hidden_size=8,
    intermediate_size=16,
    num_q_heads=2,
    num_kv_heads=1,
    head_dim=2,
    vocab_size=10,
    max_context=100,
)


def a_roofline(**given):
    return Roofline(**{"config": TOY, "chip": SLOW} | given)


def windowed(*windows):
    return a_roofline(config=replace(TOY, windows=windows))


def test_the_slower_of_memory_and_arithmetic_decides():
    assert Work(bytes=50, operations=100).seconds(SLOW) == 5.0
    assert Work(bytes=50, operations=1000).seconds(SLOW) == 10.0


def test_products_read_the_weights_once_however_many_tokens_there_are():
    one, many = (a_roofline().work([(n, n)])["products"] for n in (1, 7))

    # hidden × (q and out, k, v, three of the MLP) = 8 × (4 + 4 + 2 + 2 + 48) values a layer
    assert one == Work(bytes=2 * 480 * 2, operations=2 * 480 * 2)
    assert many == Work(bytes=2 * 480 * 2, operations=7 * 2 * 480 * 2)


def test_a_decode_reads_its_context_and_writes_one_token():
    work = a_roofline().work([(1, 20)])["attention"]

    # a token is 2 layers × 2 (keys, values) × 1 head × 2 values × 2 bytes = 16 bytes
    assert work.bytes == 16 * (20 + 1)
    # 2 layers × 20 pairs × 2 products × 2 operations × 2 heads × 2 values
    assert work.operations == 2 * 20 * 2 * 2 * 4


def test_a_prompt_attends_to_itself_below_the_diagonal():
    work = a_roofline().work([(4, 4)])["attention"]

    assert work.bytes == 16 * (4 + 4)
    assert work.operations == 2 * (1 + 2 + 3 + 4) * 16


def test_a_later_piece_of_a_prompt_attends_to_the_earlier_ones_too():
    work = a_roofline().work([(2, 10)])["attention"]

    assert work.operations == 2 * (9 + 10) * 16


@pytest.mark.parametrize(
    ("new", "context", "pairs", "tokens"),
    [
        pytest.param(1, 20, 4, 4, id="decode"),
        pytest.param(1, 3, 3, 3, id="decode-before-the-window-is-full"),
        pytest.param(6, 6, 1 + 2 + 3 + 4 + 4 + 4, 6, id="prompt"),
        pytest.param(3, 5, 3 + 4 + 4, 5, id="piece-that-fills-the-window"),
        pytest.param(3, 30, 4 + 4 + 4, 6, id="late-piece"),
    ],
)
def test_a_window_bounds_what_a_query_sees(new, context, pairs, tokens):
    """In one of two layers; the other sees all."""
    work = windowed(4, None).work([(new, context)])["attention"]

    all_pairs = sum(range(context - new + 1, context + 1))
    assert work.operations == (pairs + all_pairs) * 16
    assert work.bytes == 8 * (tokens + new) + 8 * (context + new)


def test_logits_are_of_as_many_rows_as_are_asked_for():
    work = a_roofline().work([(5, 5), (1, 9)], logit_rows=1)["logits"]

    assert work == Work(bytes=8 * 10 * 2 + 2 * 4 * 10, operations=2 * 8 * 10)


def test_logits_that_nobody_asked_for_cost_nothing():
    assert a_roofline().work([(5, 5)], logit_rows=0)["logits"] == Work(0.0, 0.0)


def test_between_kernels_rows_are_written_and_read_once():
    work = a_roofline().work([(3, 3)])["activations"]

    stream = 4 * 4 * 8  # fp32, read and written twice
    between = 2 * 2 * (4 * 8 + (4 + 2 + 2) + 2 * 4 + 3 * 16)  # bf16
    assert work == Work(bytes=3 * 2 * (stream + between), operations=0.0)


def test_the_parts_of_a_step_come_one_after_the_other():
    roofline = a_roofline()
    parts = roofline.work([(1, 20), (6, 6)])

    assert roofline.seconds([(1, 20), (6, 6)]) == sum(one.seconds(SLOW) for one in parts.values())


def test_fewer_bits_are_fewer_bytes():
    half = a_roofline(weight_bytes=1.0, kv_bytes=1.0)
    entries = [(1, 50)]

    for part in ("products", "attention"):
        assert half.work(entries)[part].bytes == a_roofline().work(entries)[part].bytes / 2


def test_a_chip_at_a_share_of_its_best_takes_longer():
    slower = SLOW.at(bandwidth=0.5, operations=0.25)

    assert Work(bytes=50, operations=0).seconds(slower) == 10.0
    assert Work(bytes=0, operations=100).seconds(slower) == 4.0


def test_what_is_left_of_the_memory_is_room_for_tokens():
    # (100 + 2×(480 + 8 + 8) + 8 + 80 …) values of 2 bytes, and 16 bytes for each token
    values = 2 * 80 + 2 * (480 + 2 * 8) + 8

    assert a_roofline().model_bytes == 2 * values
    assert a_roofline().room(0.5) == (500_000 - 2 * values) // 16


def test_a_model_that_does_not_fit_leaves_no_room():
    assert a_roofline(chip=replace(SLOW, memory=100.0)).room() == 0


@pytest.fixture(scope="module")
def requests():
    """Lengths of prompts and outputs of nano-vllm's `bench.py`, drawn as it draws them."""
    seed(0)
    prompts = [[randint(0, 10000) for _ in range(randint(100, 1024))] for _ in range(256)]
    return [(len(prompt), randint(100, 1024)) for prompt in prompts]


def decodes(requests):
    """Entries of every step after the prompts."""
    last = max(output for _, output in requests)
    steps = (
        [(1, prompt + made) for prompt, output in requests if output > made]
        for made in range(1, last)
    )
    return [step for step in steps if step]


def test_the_public_benchmark_has_the_output_that_it_reports(requests):
    assert sum(output for _, output in requests) == 133_966


def test_its_cache_reads_and_weights_are_known(requests):
    roofline = Roofline(config=PUBLIC_MODELS["Qwen3-0.6B"], chip=CHIPS["H200"])

    written = len([entry for step in decodes(requests) for entry in step])
    moved = sum(roofline.work(step)["attention"].bytes for step in decodes(requests))
    read = moved - written * roofline.kv_bytes_per_token

    assert roofline.kv_bytes_per_token == 114_688
    assert roofline.model_bytes == pytest.approx(1.19e9, rel=0.002)
    assert read == pytest.approx(13.85e12, rel=0.001)
    assert len(decodes(requests)) + 1 == 1024


@pytest.mark.parametrize(("name", "speed"), [("A100", 16.9e3), ("H100", 29.0e3), ("H200", 41.0e3)])
def test_its_tokens_a_second_at_best_are_known(requests, name, speed):
    """Where only weights, cached tokens and the products of the prompts count."""
    chip = CHIPS[name]
    roofline = Roofline(config=PUBLIC_MODELS["Qwen3-0.6B"], chip=chip)
    steps = decodes(requests)

    prompts = roofline.work([(prompt, prompt) for prompt, _ in requests])["products"]
    seconds = 1024 * roofline.model_bytes / chip.bandwidth + prompts.seconds(chip)
    seconds += sum(roofline.work(step)["attention"].bytes for step in steps) / chip.bandwidth

    assert sum(output for _, output in requests) / seconds == pytest.approx(speed, rel=0.02)


@pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)
def test_every_chip_says_where_its_numbers_are_from(chip):
    assert chip.source
    assert chip.bandwidth < chip.operations["bf16"]
