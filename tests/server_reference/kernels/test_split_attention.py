from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from .interpreted import is_intact, shuffled
from .paged_inputs import PagedBatch, Split, decodes, paged_batch, split_parts, tiles

RAGGED = decodes(1, 16, 17, 100)


@pytest.mark.parametrize("num_splits", [1, 2, 3, 7, 20])
def test_an_even_share_agrees_with_the_twin(num_splits: int) -> None:
    batch = paged_batch(RAGGED)

    batch.assert_right(tiles=tiles(16), split=batch.split(num_splits))


@pytest.mark.parametrize(("num_splits", "tokens"), [(8, 16), (4, 32), (1, 128), (20, 64)])
def test_a_fixed_share_agrees_with_the_twin(num_splits: int, tokens: int) -> None:
    batch = paged_batch(RAGGED)

    batch.assert_right(tiles=tiles(16), split=batch.split(num_splits, tokens))


def test_more_parts_than_are_merged_at_once() -> None:
    """The highest score is among the last ones."""
    batch = paged_batch(decodes(300, 10), heads=(2, 1))
    last = batch.inputs["block_table"][0, 299 // 16].long()
    batch.inputs["k_cache"][last, 299 % 16, 0] = batch.q[0, 0]

    batch.assert_right(tiles=tiles(16), split=batch.split(20, 16))


@pytest.mark.parametrize("tokens", [0, 16])
@pytest.mark.parametrize("window", [1, 20, 70])
def test_a_window_is_split(window: int, tokens: int) -> None:
    batch = paged_batch(RAGGED, window=window, soft_cap=3.0)

    batch.assert_right(tiles=tiles(16), split=batch.split(8, tokens))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_dtypes_and_fp8(dtype: torch.dtype) -> None:
    batch = paged_batch(
        RAGGED, dtype=dtype, kv_dtype=torch.float8_e4m3fn, k_scale=0.5, v_scale=2.0, head_dim=80
    )

    batch.assert_right(tiles=tiles(16), split=batch.split(3))


def test_scores_of_very_different_size_are_merged() -> None:
    """The weight of a whole part may be nothing beside another's."""
    batch = paged_batch(decodes(64, 64), amplitude=3e4)

    batch.assert_right(tiles=tiles(16), split=batch.split(4))


def test_prompts_beside_split_decodes() -> None:
    batch = paged_batch([*decodes(40, 3), (20, 30)])

    batch.assert_right(tiles=tiles(16), split=batch.split(3))


def test_padding_of_a_captured_graph_is_skipped() -> None:
    batch = paged_batch([*decodes(40, 3), (0, 0), (0, 20)])
    batch.num_decodes = 4
    split = batch.split(3)

    batch.assert_right(tiles=tiles(16), split=split)

    assert is_intact(split.parts)


def test_parts_serve_any_number_of_decodes_one_after_another() -> None:
    large = paged_batch(decodes(40, 90, 3))
    split = large.split(3)
    large.attend(split=split)

    paged_batch(decodes(7, 33)).assert_right(tiles=tiles(16), split=split)


def test_programs_run_in_any_order() -> None:
    batch = paged_batch(RAGGED)
    in_order = batch.attend(tiles=tiles(16), split=batch.split(3))

    with shuffled(1):
        out = batch.attend(tiles=tiles(16), split=batch.split(3))

    assert out.equal(in_order)


def alone(batch: PagedBatch, seq: int, **options: int | None) -> PagedBatch:
    """A batch of one of its decodes, in other blocks, which are not all in another order."""
    context_len = int(batch.inputs["context_lens"][seq])
    found = paged_batch(decodes(context_len), seed=seq + 1, **options)
    own, theirs = found.inputs["block_table"][0], batch.inputs["block_table"][seq]
    num_blocks = len(own) - 1
    for name in ("k_cache", "v_cache"):
        blocks = batch.inputs[name][theirs[:num_blocks].long()]
        found.inputs[name][own[:num_blocks].long()] = blocks
    found.q[0] = batch.q[seq]
    return found


@pytest.mark.parametrize("window", [None, 50])
def test_with_a_fixed_share_bits_do_not_depend_on_the_batch(window: int | None) -> None:
    batch = paged_batch(decodes(100, 30, 61, 1), window=window)
    out = batch.attend(tiles=tiles(16), split=batch.split(5, 32))

    for seq in range(4):
        one = alone(batch, seq, window=window)
        again = one.attend(tiles=tiles(16), split=one.split(4 + 10 * seq, 32))
        assert again[0].equal(out[seq])


def test_a_share_as_long_as_the_context_is_the_unsplit_one() -> None:
    batch = paged_batch(RAGGED)

    out = batch.attend(tiles=tiles(16), split=batch.split(1, 128))

    torch.testing.assert_close(out, batch.attend(tiles=tiles(16)), rtol=1e-6, atol=1e-7)


@settings(max_examples=20)
@given(
    contexts=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    share=st.tuples(st.integers(1, 9), st.just(0)) | st.tuples(st.integers(5, 7), st.just(16)),
    window=st.none() | st.integers(1, 60),
    block_size=st.sampled_from([1, 3, 16, 20]),
    seed=st.integers(0, 99),
)
def test_any_split_agrees_with_the_whole(
    contexts: list[int], share: tuple[int, int], window: int | None, block_size: int, seed: int
) -> None:
    batch = paged_batch(
        decodes(*contexts), heads=(3, 1), window=window, block_size=block_size, seed=seed
    )

    out = batch.attend(tiles=tiles(16), split=batch.split(*share))

    torch.testing.assert_close(out, batch.attend(tiles=tiles(16)), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("parts", "tokens", "message"),
    [
        pytest.param(
            split_parts(3, 4, 16, 8, "cpu"), 0, "is for 3 decodes of 4 heads, not for 4", id="few"
        ),
        pytest.param(split_parts(4, 2, 16, 8, "cpu"), 0, "of 2 heads, not for 4 of 4", id="heads"),
        pytest.param(split_parts(4, 4, 32, 8, "cpu"), 0, "make them with split_parts", id="dims"),
        pytest.param(
            split_parts(4, 4, 16, 8, "cpu"),
            24,
            "a multiple of 16 keys, not 24",
            id="part-of-a-tile",
        ),
        pytest.param(split_parts(4, 4, 16, 8, "cpu"), -16, "keys, not -16", id="negative"),
        pytest.param(split_parts(4, 4, 16, 0, "cpu"), 0, "make them with split_parts", id="none"),
        pytest.param(
            split_parts(4, 4, 16, 8, "cpu").half(), 0, "split.parts must be .* float32", id="half"
        ),
        pytest.param(
            split_parts(4, 8, 16, 4, "cpu").transpose(1, 2), 0, "must be contiguous", id="apart"
        ),
        pytest.param(
            split_parts(4, 4, 16, 3, "cpu"),
            32,
            "3 splits of 32 tokens are fewer than the 128 .* make split_parts for 4",
            id="short",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts: Tensor, tokens: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paged_batch(RAGGED).attend(tiles=tiles(16), split=Split(parts, tokens))
