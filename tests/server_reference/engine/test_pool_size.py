"""Memory shared out between KV blocks and the mirror. A token takes 2 x 2 x 2 x 4 x 4 bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from server_reference.config import EngineConfig
from server_reference.engine.pool_size import pool_size
from tests.server_reference.attention.paged import CONFIG

GIB = 1 << 30
TOKEN = 128
BLOCK = 16 * TOKEN
HUGE = replace(CONFIG, max_context=2**40)


def a_size(model=CONFIG, *, free=GIB, **config):
    return pool_size(model, EngineConfig(**config), torch.float32, free=free)


def test_a_quarter_of_the_memory_is_the_mirrors():
    size = a_size(kv_memory_bytes=400 * BLOCK)

    assert (size.num_blocks, size.mirror_tokens) == (300, 1600)


def test_deterministic_numerics_need_no_mirror():
    size = a_size(kv_memory_bytes=400 * BLOCK, numerics="deterministic")

    assert (size.num_blocks, size.mirror_tokens) == (400, 0)


def test_a_model_that_caps_its_scores_needs_no_mirror():
    size = a_size(replace(CONFIG, attention_soft_cap=1.0), kv_memory_bytes=400 * BLOCK)

    assert (size.num_blocks, size.mirror_tokens) == (400, 0)


def test_of_free_memory_half_is_taken():
    size = a_size(HUGE, free=800 * BLOCK)

    assert (size.num_blocks, size.mirror_tokens) == (300, 1600)


def test_of_much_free_memory_no_more_than_4_gib_are_taken():
    size = a_size(HUGE, free=100 * GIB)

    assert size.num_blocks * BLOCK + size.mirror_tokens * TOKEN == 4 * GIB


def test_more_is_taken_where_it_is_asked_for():
    size = a_size(HUGE, free=100 * GIB, kv_memory_bytes=10 * GIB)

    assert size.num_blocks * BLOCK + size.mirror_tokens * TOKEN == 10 * GIB


def test_no_more_blocks_are_made_than_running_sequences_can_fill():
    size = a_size(free=100 * GIB, max_num_seqs=3)

    assert size.num_blocks == 3 * 512 / 16


def test_a_given_number_of_blocks_is_taken_and_its_mirror_is_as_large():
    size = a_size(num_blocks=10)

    assert (size.num_blocks, size.mirror_tokens) == (10, 160)


def test_beside_given_blocks_the_mirror_takes_half_of_what_is_left():
    size = a_size(num_blocks=10, free=12 * BLOCK)

    assert (size.num_blocks, size.mirror_tokens) == (10, 16)


def test_the_arithmetic_is_told():
    size = a_size(kv_memory_bytes=400 * BLOCK)

    assert size.notes == [
        "KV blocks: one of 16 tokens takes 2,048 bytes (2 x 2 layers x 2 heads x 4 x 4 bytes "
        "each); a request of the whole context of 512 tokens needs 32",
        "kv_memory_bytes=819,200: 300 blocks for 4,800 tokens, 614,400 bytes, and a mirror of "
        "1,600 tokens, 204,800 bytes, of 1,073,741,824 bytes free",
    ]


def test_a_request_may_have_the_whole_context_where_the_pool_holds_it():
    size = a_size(num_blocks=32)

    assert size.max_context == 512
    assert "fit in" not in size.notes[0]


def test_without_a_setting_a_request_may_have_what_the_pool_holds():
    """Whoever starts a model of a long context on a small machine wants to use it there."""
    size = a_size(num_blocks=31)

    assert size.max_context == 496
    assert size.notes[0].endswith(
        "a request of the whole context of 512 tokens needs 32: no more than 496 tokens of it fit "
        "in; raise num_blocks to 32"
    )


def test_a_shorter_context_takes_smaller_a_pool():
    size = a_size(max_context=100, num_blocks=7)

    assert size.max_context == 100
    assert a_size(max_context=100, max_num_seqs=3, free=100 * GIB).num_blocks == 3 * 7


@pytest.mark.parametrize("config", [{}, {"numerics": "deterministic"}], ids=["mirror", "none"])
def test_the_memory_that_a_refusal_advises_suffices(config):
    with pytest.raises(ValueError, match="raise kv_memory_bytes to") as raised:
        a_size(max_context=512, kv_memory_bytes=1000, **config)
    advised = int(str(raised.value).rpartition(" to ")[2].replace(",", ""))

    assert a_size(max_context=512, kv_memory_bytes=advised, **config).max_context == 512
    with pytest.raises(ValueError, match="too little for one request"):
        a_size(max_context=512, kv_memory_bytes=advised - 4, **config)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param(
            {"kv_memory_bytes": 1000},
            r"kv_memory_bytes=1,000 holds 0 KV blocks.*takes 2,048 bytes \(2 x 2 layers x 2 heads "
            r"x 4 x 4 bytes each\); a request of the whole context of 512 tokens needs 32; raise",
            id="no-block",
        ),
        pytest.param({"free": 2000}, r"1,000 bytes \(half of what is free", id="none-free"),
        pytest.param({"num_blocks": 1, "block_size": 1}, "num_blocks=1 holds 1 KV", id="one-token"),
        pytest.param(
            {"max_context": 513},
            "max_context=513 is more than the 512 tokens that the model was made for; lower it",
            id="context-above-the-models",
        ),
        pytest.param(
            {"max_context": 512, "num_blocks": 31},
            "num_blocks=31 holds 31 KV blocks, for 496 tokens, which is too little for one request:"
            ".* needs 32; raise num_blocks to 32, or lower max_context to 496",
            id="pool-below-the-context",
        ),
        pytest.param(
            {"max_context": 512, "free": 50 * BLOCK},
            r"51,200 bytes \(half of what is free, at most 4,294,967,296\) holds 18 KV blocks, for "
            "288 tokens.*; raise kv_memory_bytes to 87,382, or lower max_context to 288",
            id="memory-below-the-context",
        ),
        pytest.param({"max_context": 15}, "block_size=16 is more than the context", id="short"),
        pytest.param(
            {"block_size": 1024},
            "block_size=1,024 is more than the context.* one of 1,024 tokens takes 131,072",
            id="block-longer-than-context",
        ),
        pytest.param(
            {"num_blocks": 11, "free": 10 * BLOCK},
            r"11 KV blocks \(num_blocks=11\) of 2,048 bytes are more than the 20,480 free bytes",
            id="more-blocks-than-memory",
        ),
        pytest.param(
            {"kv_memory_bytes": 100 * BLOCK, "free": 10 * BLOCK},
            r"32 KV blocks \(kv_memory_bytes=204,800\) of 2,048 bytes are more than",
            id="more-bytes-than-memory",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_the_arithmetic(config, message):
    with pytest.raises(ValueError, match=message):
        a_size(**{"max_num_seqs": 1} | config)
