from __future__ import annotations

import pytest
import torch

from server_reference.kernels.attention_tiles import attention_tiles, best_splits

FAMILIES = ["sm_80", "sm_90", "sm_100", "gfx942"]
BF16, FP32 = torch.bfloat16, torch.float32


@pytest.mark.parametrize("head_dim", [16, 64, 80, 96, 128, 256])
@pytest.mark.parametrize("family", FAMILIES)
def test_matrix_units_get_the_rows_they_need(family: str, head_dim: int) -> None:
    tiles = attention_tiles(family, head_dim, BF16, BF16)

    assert tiles.decode.rows == 16
    assert tiles.prefill.rows >= 64
    assert tiles.prefill.num_warps >= 4


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_a_decode_tile_is_of_the_same_size_whatever_the_head(head_dim: int) -> None:
    tile = attention_tiles("sm_90", head_dim, BF16, BF16).decode

    assert tile.keys * head_dim == 8192


def test_there_is_a_row_for_fp8_from_hopper_on() -> None:
    assert attention_tiles("sm_90", 128, BF16, torch.float8_e4m3fn).decode.num_stages == 4

    with pytest.raises(
        ValueError, match=r"no attention tiles for 8-bit keys on sm_80; there are 16"
    ):
        attention_tiles("sm_80", 128, BF16, torch.float8_e4m3fn)


def test_an_unknown_chip_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ValueError, match=r"16-bit keys on sm_75; there are 16 bits on sm_80, .*gfx"
    ):
        attention_tiles("sm_75", 128, BF16, BF16)


@pytest.mark.parametrize("family", FAMILIES)
def test_fp32_has_tiles_of_its_own(family: str) -> None:
    assert attention_tiles(family, 128, FP32, FP32).prefill.rows == 32


def splits(num_decodes: int, max_context: int = 131_072, family: str = "sm_90") -> int:
    return best_splits(num_decodes, 8, max_context, family=family, num_processors=132)


def test_decodes_that_fill_the_chip_are_not_split() -> None:
    assert splits(64) == splits(40) == 1


def test_fewer_decodes_are_split_more() -> None:
    assert [splits(number) for number in (32, 16, 8, 4, 1)] == [3, 3, 6, 11, 42]


def test_a_split_has_256_keys_at_least() -> None:
    assert splits(1, 1024) <= 4
    assert splits(1, 100) == 1
