"""Attention by tiles: right, and the same to the last bit however a sequence is run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.overrides import TorchFunctionMode

from server_reference.attention.tiled_attention import TiledAttention
from tests.server_reference.attention.paged import (
    CONFIG,
    a_batch,
    a_cache,
    attend,
    plainly,
    random_qkv,
)

LEN = 300
TABLE = list(range(0, 152, 2))
SOME = replace(CONFIG, head_dim=64, num_q_heads=9, num_kv_heads=3, windows=(None, 140))
BOTH_DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
BOTH_LAYERS = pytest.mark.parametrize("layer", [0, 1], ids=["all", "window"])


def an_attention(dtype, config=SOME, block_size=4):
    cache = a_cache(config, num_blocks=320, block_size=block_size, dtype=dtype)
    return TiledAttention(config, cache)


def in_chunks(cuts, qkv, dtype, layer, config=SOME):
    attention = an_attention(dtype, config)
    parts = [
        attend(
            attention, a_batch((TABLE, start, stop - start)), [x[start:stop] for x in qkv], layer
        )
        for start, stop in zip([0, *cuts], cuts, strict=False)
    ]
    return torch.cat(parts)


@pytest.fixture(params=[1, 2], ids=["one-thread", "two-threads"])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def whole():
    """Outputs of one sequence, computed in one piece and alone, by dtype and layer."""
    torch.set_num_threads(1)
    kinds = [(dtype, layer) for dtype in (torch.float32, torch.bfloat16) for layer in (0, 1)]
    return {
        (dtype, layer): in_chunks([LEN], random_qkv(LEN, config=SOME, dtype=dtype), dtype, layer)
        for dtype, layer in kinds
    }


@BOTH_LAYERS
@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)], ids=["fp32", "bf16"]
)
def test_agrees_with_plain_attention(whole, dtype, atol, layer):
    qkv = random_qkv(LEN, config=SOME, dtype=dtype)

    expected = plainly(*qkv, config=SOME, layer=layer)

    torch.testing.assert_close(whole[dtype, layer].float(), expected, atol=atol, rtol=0)


@BOTH_DTYPES
@pytest.mark.parametrize("sizes", [range(1, 10), range(10, 80), range(80, 151)], ids=str)
def test_chunks_of_every_size_equal_the_whole_to_the_bit(whole, dtype, sizes):
    qkv = random_qkv(LEN, config=SOME, dtype=dtype)

    differing = [
        size
        for size in sizes
        if not torch.equal(
            in_chunks([*range(size, LEN, size), LEN], qkv, dtype, size % 2),
            whole[dtype, size % 2],
        )
    ]

    assert differing == []


@BOTH_DTYPES
@pytest.mark.parametrize("size", [1, 7, 150, 300])
def test_tiles_out_of_reach_of_every_window_may_be_left_out(whole, dtype, size):
    """Where all layers have one; those that are left begin where they always do."""
    qkv = random_qkv(LEN, config=SOME, dtype=dtype)
    windows = replace(SOME, windows=(140, 140))

    chunks = in_chunks([*range(size, LEN, size), LEN], qkv, dtype, 1, config=windows)

    assert torch.equal(chunks, whole[dtype, 1])


@BOTH_DTYPES
@BOTH_LAYERS
@pytest.mark.parametrize("company", [1, 2, 7, 40])
def test_decodes_in_any_company_equal_those_alone_to_the_bit(whole, dtype, layer, company, threads):
    attention, qkv = an_attention(dtype), random_qkv(LEN, config=SOME, dtype=dtype)
    start = LEN - 20
    attend(attention, a_batch((TABLE, 0, start)), [x[:start] for x in qkv], layer)
    others = random_qkv(company, seed=1, config=SOME, dtype=dtype)

    rows = []
    for at in range(start, LEN):
        chunks = [([153 + 2 * other], 0, 1, 1 + other) for other in range(company)]
        batch = a_batch(*chunks[: company // 2], (TABLE, at, 1, 0), *chunks[company // 2 :])
        both = zip(others, qkv, strict=True)
        middle = company // 2
        step = [torch.cat([o[:middle], x[at : at + 1], o[middle:]]) for o, x in both]
        rows.append(attend(attention, batch, step, layer)[middle])

    assert torch.equal(torch.stack(rows), whole[dtype, layer][start:])


@BOTH_DTYPES
def test_a_chunk_beside_others_on_two_threads_equals_the_whole_to_the_bit(whole, dtype, threads):
    attention, qkv = an_attention(dtype), random_qkv(LEN, config=SOME, dtype=dtype)
    other = random_qkv(90, seed=1, config=SOME, dtype=dtype)

    batch = a_batch((TABLE, 0, LEN), (list(range(153, 200, 2)), 0, 90))
    both = [torch.cat([x, y]) for x, y in zip(qkv, other, strict=True)]
    out = attend(attention, batch, both, layer=0)

    assert torch.equal(out[:LEN], whole[dtype, 0])


@BOTH_DTYPES
def test_neither_the_blocks_size_nor_their_order_changes_a_bit(whole, dtype):
    attention = an_attention(dtype, block_size=7)
    qkv = random_qkv(LEN, config=SOME, dtype=dtype)

    batch = a_batch((list(range(60, 10, -1)), 0, LEN), block_size=7)
    out = attend(attention, batch, qkv, layer=0)

    assert torch.equal(out, whole[dtype, 0])


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(replace(CONFIG, attention_soft_cap=0.5), id="capped"),
        pytest.param(replace(CONFIG, num_q_heads=40), id="more-heads-than-rows"),
        pytest.param(replace(CONFIG, windows=(3, 3)), id="windows-everywhere"),
    ],
)
def test_other_shapes_agree_with_plain_attention(config):
    attention, qkv = an_attention(torch.float32, config), random_qkv(280, config=config)
    table = list(range(70))
    first = attend(attention, a_batch((table, 0, 279)), [x[:279] for x in qkv])

    last = attend(attention, a_batch((table, 279, 1)), [x[279:] for x in qkv])

    expected = plainly(*qkv, config=config)
    torch.testing.assert_close(torch.cat([first, last]), expected, atol=1e-5, rtol=0)


class AnotherPathForOne(TorchFunctionMode):
    """A machine that computes a product otherwise where it is the only one of its batch."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        is_other = func is torch.bmm and len(found) == 1 and args[1].shape[1:] == self.shape
        return found * (1 + 2**-20) if is_other else found


@pytest.mark.parametrize("shape", [(64, 128), (128, 64)], ids=["scores", "values"])
def test_a_machine_whose_products_depend_on_their_company_is_refused(shape):
    refused = pytest.raises(ValueError, match=rf"with {shape[0]} by {shape[1]} numbers differ")

    with AnotherPathForOne(shape), refused:
        an_attention(torch.float32)
