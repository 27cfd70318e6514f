from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from .interpreted import guarded, shuffled
from .paged_inputs import PagedBatch, decodes, paged_batch, tiles

MIXED = [*decodes(33, 1), (5, 5), (36, 50)]
"""Two decodes, a short prompt, and a chunk of two query tiles."""

FP8 = torch.float8_e4m3fn


@pytest.mark.parametrize(
    "lens",
    [
        pytest.param(decodes(1), id="one-token"),
        pytest.param(decodes(15, 16, 17, 33), id="around-the-edges-of-blocks-and-tiles"),
        pytest.param([(16, 16)], id="a-prompt-of-one-block"),
        pytest.param([(2, 40)], id="two-new-tokens"),
        pytest.param([(33, 33), (32, 32), (2, 90)], id="prompts-around-the-edge-of-a-tile"),
        pytest.param([(70, 100)], id="a-chunk-of-three-tiles"),
        pytest.param(MIXED, id="decodes-and-prompts"),
    ],
)
def test_agrees_with_the_twin(lens: list[tuple[int, int]]) -> None:
    paged_batch(lens).assert_right(tiles=tiles(32))


@pytest.mark.parametrize("keys", [16, 64], ids=lambda keys: f"{keys}-keys")
@pytest.mark.parametrize("block_size", [1, 5, 16, 64], ids=lambda size: f"blocks-of-{size}")
def test_a_tile_may_be_part_of_a_block_or_several(block_size: int, keys: int) -> None:
    paged_batch(MIXED, block_size=block_size).assert_right(tiles=tiles(keys))


@pytest.mark.parametrize("group", [1, 3, 4, 7, 9, 17, 65])
def test_groups_of_any_size_are_packed(group: int) -> None:
    paged_batch([*decodes(20), (3, 9), (23, 37)], heads=(2 * group, 2)).assert_right()


@pytest.mark.parametrize("head_dim", [64, 80, 96, 112, 128, 256])
def test_head_dims_are_padded(head_dim: int) -> None:
    paged_batch([*decodes(40), (20, 37)], heads=(4, 2), head_dim=head_dim).assert_right()


@pytest.mark.parametrize("soft_cap", [None, 1.5], ids=["", "capped"])
@pytest.mark.parametrize("window", [1, 7, 16, 40, 1000])
def test_a_query_sees_its_window(window: int, soft_cap: float | None) -> None:
    paged_batch(MIXED, window=window, soft_cap=soft_cap).assert_right(tiles=tiles(16))


def test_scores_are_capped() -> None:
    paged_batch(MIXED, soft_cap=0.5, amplitude=4.0).assert_right()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_dtypes(dtype: torch.dtype) -> None:
    paged_batch(MIXED, dtype=dtype).assert_right()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_fp8_keys_and_values_have_scales(dtype: torch.dtype) -> None:
    batch = paged_batch(MIXED, dtype=dtype, kv_dtype=FP8, k_scale=0.25, v_scale=3.0)

    batch.assert_right()


def test_fp8_keys_are_scaled_before_the_cap() -> None:
    paged_batch(MIXED, kv_dtype=FP8, k_scale=4.0, soft_cap=2.0).assert_right()


@pytest.mark.parametrize("soft_cap", [None, 50.0], ids=["", "capped"])
@pytest.mark.parametrize(
    "score", [pytest.param(1e4, id="huge"), pytest.param(-1e4, id="negative"), 1e-6, 0.0]
)
def test_scores_of_any_size(score: float, soft_cap: float | None) -> None:
    """All keys are alike, so all weights are, whatever the score."""
    batch = paged_batch(MIXED, soft_cap=soft_cap)
    batch.inputs["k_cache"][:] = 0.5
    batch.q[:] = score / (0.5 * batch.q.shape[2] ** 0.5)

    batch.assert_right()


def test_the_highest_score_takes_all_weight() -> None:
    batch = paged_batch(decodes(40, 17), amplitude=1e5)

    batch.assert_right(tiles=tiles(16))


def test_one_token_gets_its_own_value() -> None:
    batch = paged_batch(decodes(1, 1), heads=(2, 2))
    tables = batch.inputs["block_table"]

    out = batch.attend()

    assert out.equal(batch.inputs["v_cache"][tables[:, 0].long(), 0])


def test_a_sequence_without_rows_is_skipped() -> None:
    """Padding of a captured graph; what its context is does not matter."""
    lens = [(1, 20), (0, 0), (0, 33), (1, 5), (0, 0), (4, 9), (0, 16), (37, 37)]
    batch = paged_batch(lens, kv_dtype=None)
    batch.num_decodes = 5

    batch.assert_right()


@pytest.mark.parametrize("num_decodes", [0, 3])
def test_rows_of_no_sequence_are_left_alone(num_decodes: int) -> None:
    batch = paged_batch([(1, 20), (1, 9), (1, 5)])
    batch.num_decodes = num_decodes
    batch.inputs["query_start"][:] = torch.tensor([0, 1, 1, 2])

    out = batch.attend()

    assert out[:2].isfinite().all()
    assert out[2:].isnan().all()


def test_many_short_sequences_have_surplus_programs() -> None:
    batch = paged_batch([(length, length + 3) for length in (1, 2, 3, 1, 1, 9, 2, 1)])
    batch.num_decodes = 0

    batch.assert_right(max_query_len=1000)


def test_a_bound_of_the_query_length_that_is_loose_changes_nothing() -> None:
    batch = paged_batch([*decodes(20), (5, 40), (12, 12)])

    assert batch.attend(max_query_len=12).equal(batch.attend(max_query_len=4096))


def test_a_decode_is_the_same_in_any_batch() -> None:
    batch, alone = paged_batch([*decodes(50), (20, 20)]), paged_batch(decodes(50))
    blocks, own = batch.inputs["block_table"][0, :4].long(), alone.inputs["block_table"][0, :4]
    for name in ("k_cache", "v_cache"):
        alone.inputs[name][own.long()] = batch.inputs[name][blocks]
    alone.q[0] = batch.q[0]

    assert alone.attend()[0].equal(batch.attend()[0])


def test_what_a_window_has_left_is_not_read() -> None:
    """Its blocks may be another sequence's by now, or hold NaN."""
    batch = paged_batch([*decodes(70), (9, 70)], window=20)
    expected = batch.expected()
    for seq, oldest in enumerate((50, 42)):
        table = batch.inputs["block_table"][seq]
        blocks = table[: oldest // 16 + 1].long()
        for name in ("k_cache", "v_cache"):
            cache = batch.inputs[name]
            cache[blocks[:-1]] = torch.nan
            cache[blocks[-1], : oldest % 16] = torch.nan
        table[: oldest // 16] = 10_000

    out = batch.attend(tiles=tiles(16))

    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("soft_cap", [None, 2.0], ids=["", "capped"])
def test_a_nan_stays_with_its_sequence(soft_cap: float | None) -> None:
    batch = paged_batch([*decodes(20, 20), (5, 20)], soft_cap=soft_cap)
    batch.q[0] = torch.nan
    batch.inputs["v_cache"][batch.inputs["block_table"][2, 0].long()] = torch.nan

    out = batch.attend()

    assert out[0].isnan().all()
    assert out[1].isfinite().all()
    assert out[2:].isnan().all()


def test_a_nan_stays_with_its_head() -> None:
    """What a head is padded to is the next one, which is not read."""
    batch = paged_batch([*decodes(40), (5, 60)], heads=(4, 2), head_dim=80)
    expected = batch.expected()[:, :2]
    for name in ("k_cache", "v_cache"):
        batch.inputs[name][:, 3, 1] = torch.nan

    out = batch.attend(tiles=tiles(16))

    torch.testing.assert_close(out[:, :2].double(), expected, rtol=1e-5, atol=3e-6)
    assert out[:, 2:].isnan().all()


def test_keys_after_a_query_tile_are_not_read() -> None:
    """A tile of 16 tokens; what the later tiles are to see is NaN."""
    batch = paged_batch([(40, 40)])
    expected = batch.expected()[:32]
    last = batch.inputs["block_table"][0, 2].long()
    for name in ("k_cache", "v_cache"):
        batch.inputs[name][last] = torch.nan

    out = batch.attend(tiles=tiles(16, 32))

    torch.testing.assert_close(out[:32].double(), expected, rtol=1e-5, atol=3e-6)
    assert out[32:].isnan().all()


@pytest.mark.parametrize("seed", range(3))
def test_programs_run_in_any_order(seed: int) -> None:
    batch = paged_batch(MIXED)
    in_order = batch.attend()

    with shuffled(seed):
        out = batch.attend()

    assert out.equal(in_order)


def test_queries_lie_in_rows_of_a_fused_projection() -> None:
    batch = paged_batch(MIXED)
    rows = guarded(torch.full((len(batch.q), 4 + 2 + 2, 16), torch.nan))
    rows[:, :4] = batch.q
    batch.inputs["q"] = rows[:, :4]

    batch.assert_right()


def test_the_output_may_have_room_between_tokens() -> None:
    batch = paged_batch(MIXED)
    room = torch.full((len(batch.q), 6, 16), torch.nan)

    batch.launch(room[:, 1:5])

    assert room[:, 1:5].equal(batch.attend())
    assert room[:, [0, 5]].isnan().all()


class NoReading(TorchDispatchMode):
    """Refuses what would wait for a device: a number of a tensor, or a copy to the host."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert "_local_scalar_dense" not in str(func)
        assert "_to_copy" not in str(func)
        assert "nonzero" not in str(func)
        return func(*args, **(kwargs or {}))


def test_no_number_is_read_back_from_the_device() -> None:
    batch = paged_batch(MIXED)
    out, split = torch.empty_like(batch.q), batch.split(2)

    with NoReading():
        batch.launch(out, split=split)

    assert out.equal(batch.attend(split=split))


@st.composite
def batches(draw: st.DrawFn) -> PagedBatch:
    contexts = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    lens = [(draw(st.integers(1, context)), context) for context in contexts]
    num_kv_heads = draw(st.sampled_from([1, 2]))
    batch = paged_batch(
        sorted(lens),
        heads=(num_kv_heads * draw(st.integers(1, 6)), num_kv_heads),
        head_dim=draw(st.sampled_from([16, 32, 48])),
        block_size=draw(st.integers(1, 20)),
        dtype=draw(st.sampled_from([torch.float32, torch.float16, torch.bfloat16])),
        seed=draw(st.integers(0, 99)),
        window=draw(st.none() | st.integers(1, 45)),
        soft_cap=draw(st.none() | st.floats(0.5, 20.0)),
    )
    batch.num_decodes = draw(st.integers(0, batch.num_decodes))
    return batch


@settings(max_examples=30)
@given(batch=batches(), keys=st.sampled_from([16, 32]), rows=st.sampled_from([16, 64]))
def test_any_batch_agrees_with_the_twin(batch: PagedBatch, keys: int, rows: int) -> None:
    batch.assert_right(tiles=tiles(keys, rows))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "max-query-len": ({"max_query_len": 0}, "max_query_len must be at least 1 token, not 0"),
    "num-decodes": ({"num_decodes": 5}, "num_decodes must be 0 to 4 sequences, not 5"),
    "scale": ({"scale": -1.0}, "scale must be above 0 and finite, not -1.0"),
    "endless-scale": ({"scale": math.inf}, "scale must be above 0 and finite, not inf"),
    "k-scale": ({"k_scale": 0.0}, "k_scale must be above 0 and finite, not 0.0"),
    "v-scale": ({"v_scale": math.nan}, "v_scale must be above 0 and finite, not nan"),
    "endless-cap": ({"soft_cap": math.inf}, "soft_cap must be above 0 and finite, not inf"),
    "window": ({"window": 0}, "window must be at least 1 token, not 0; use None for all"),
    "soft-cap": ({"soft_cap": 0.0}, "soft_cap must be above 0 .* not 0.0; use None for none"),
    "out-shape": ({"out": torch.empty(9, 4, 16)}, r"out must be like q, .*, not \[9, 4, 16\]"),
    "out-dtype": ({"out": torch.empty(43, 4, 16).half()}, "out must be like q, .* of float16"),
    "out-overlaps": (
        {"out": torch.empty(1, 4, 16).expand(43, 4, 16)},
        "out must have a place for each token",
    ),
    "out-strides": (
        {"out": torch.empty(43, 4 * 16 + 1)[:, :64].view(43, 4, 16)},
        r"out must have its heads side by side .* strides are \(65, 16, 1\)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(name: str) -> None:
    changes, message = WRONG[name]
    batch = paged_batch(MIXED)

    with pytest.raises(ValueError, match=message):
        batch.launch(**({"out": torch.empty_like(batch.q)} | changes))


WRONG_INPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "dims": ({"q": torch.empty(43, 64)}, r"q must be 3 dimensions of fp16, .*, not \[43, 64\]"),
    "dtype": ({"q": torch.empty(43, 4, 16).double()}, "q must be .* of float64"),
    "head-dim": ({"q": torch.empty(43, 2, 24)}, "head_dim must be a multiple of 16 up to 256, not"),
    "caches": ({"v_cache": torch.empty(7, 8, 2, 16)}, "v_cache must be like k_cache"),
    "cache-dim": ({"k_cache": torch.empty(7, 16, 2, 32)}, r"k_cache must be contiguous, .*, 16\]"),
    "cache-dtype": ({"k_cache": torch.empty(7, 16, 2, 16).half()}, "k_cache must hold q's"),
    "block-table": ({"block_table": torch.zeros(4, 4)}, "block_table must be .* int32"),
    "table-dims": ({"block_table": torch.zeros(()).int()}, "block_table must be contiguous"),
    "lens-dims": ({"context_lens": torch.zeros(()).int()}, r"context_lens must be .* \[any\]"),
    "query-start": (
        {"query_start": torch.zeros(4).int()},
        r"query_start must be .* \[5\] of int32, not",
    ),
    "context-lens": ({"context_lens": torch.zeros(4)}, "context_lens must be .* int32"),
}


@pytest.mark.parametrize("name", WRONG_INPUTS)
def test_wrong_inputs_are_refused(name: str) -> None:
    changes, message = WRONG_INPUTS[name]
    batch = paged_batch(MIXED)
    batch.inputs |= changes

    with pytest.raises(ValueError, match=message):
        batch.launch(torch.empty_like(batch.q))


def test_query_heads_that_share_no_kv_head_are_refused() -> None:
    with pytest.raises(ValueError, match=r"num_q_heads \(3\) must be a multiple of num_kv_heads"):
        paged_batch(MIXED, heads=(3, 2)).attend()


def test_more_query_tiles_than_a_grid_has_are_refused() -> None:
    batch = paged_batch([(2, 2)])
    batch.inputs["q"] = torch.empty(1, 4, 16).expand(70_000 * 32, 4, 16).contiguous()

    with pytest.raises(ValueError, match=r"70,001 query tiles, over 65,535; attend to fewer"):
        batch.launch(batch.q, max_query_len=70_000)
