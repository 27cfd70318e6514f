"""Regions of the mirror: given, found again, filled from blocks, taken back."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from server_reference.attention.kv_mirror import KvMirror
from tests.server_reference.attention.paged import a_cache

TABLE = np.arange(96)


def a_mirror(num_tokens=256):
    """A mirror of blocks whose keys are their slots and whose values are minus that."""
    cache = a_cache()
    slots = torch.arange(96 * 4, dtype=torch.float32).view(1, 96, 4, 1, 1)
    cache.k.copy_(slots.expand_as(cache.k))
    cache.v.copy_(-slots.expand_as(cache.v))
    return KvMirror(cache, num_tokens=num_tokens)


def a_view(mirror, region, start, stop):
    keys, values = mirror.view(1, region, 1, start, stop)
    torch.testing.assert_close(values, -keys, atol=0, rtol=0)
    return keys[0, 0, :, 0].tolist()


def test_a_region_holds_what_its_owners_blocks_hold():
    mirror = a_mirror()

    region = mirror.region((0, 0), 10, 11, TABLE[[7, 3, 5]])

    assert a_view(mirror, region, 0, 10) == [28, 29, 30, 31, 12, 13, 14, 15, 20, 21]


def test_past_its_tokens_a_region_is_clear_of_what_another_left():
    mirror = a_mirror()
    mirror.k.fill_(torch.nan)
    mirror.v.fill_(torch.nan)

    region = mirror.region((0, 0), 3, 4, TABLE)
    mirror.clean(region, 60)

    assert a_view(mirror, region, 0, 3) == [0, 1, 2]
    assert a_view(mirror, region, 4, 60) == 56 * [0]  # its owner writes the fourth


def test_what_a_region_lacks_is_copied_and_nothing_else():
    mirror = a_mirror()
    mirror.region((0, 0), 5, 6, TABLE)
    mirror.k.zero_()
    mirror.v.zero_()

    region = mirror.region((0, 0), 9, 10, TABLE)

    assert a_view(mirror, region, 0, 9) == 6 * [0] + [6, 7, 8]


def test_an_owner_that_outgrows_its_region_moves_to_one_of_twice_the_size():
    mirror = a_mirror()
    mirror.region((0, 0), 63, 64, TABLE)

    region = mirror.region((0, 0), 64, 65, TABLE)

    assert region.size == 128
    assert a_view(mirror, region, 0, 63) == list(range(63))


def test_it_grows_where_it_is_if_there_is_room():
    mirror = a_mirror()
    before = mirror.region((0, 0), 63, 64, TABLE)
    mirror.k[:, : before.size] += 0.5
    mirror.v[:, : before.size] -= 0.5

    region = mirror.region((0, 0), 64, 130, TABLE)

    assert (region.offset, region.size) == (0, 256)
    assert a_view(mirror, region, 0, 3) == [0.5, 1.5, 2.5]  # not copied again


def test_else_it_takes_along_what_it_has():
    mirror = a_mirror(512)
    for owner in range(2):
        before = mirror.region((owner, 0), 63, 64, TABLE)
    mirror.k[:, before.offset :] += 0.5
    mirror.v[:, before.offset :] -= 0.5

    region = mirror.region((1, 0), 64, 65, TABLE)

    assert (region.offset, region.size) == (128, 128)
    assert a_view(mirror, region, 0, 3) == [0.5, 1.5, 2.5]


def test_a_prompt_gets_a_region_for_all_of_it_where_there_is_room():
    mirror = a_mirror(512)

    mirror.region((0, 0), 0, 60, TABLE)

    sizes = [mirror.region((at, 0), 0, 60, TABLE, whole=250).size for at in (1, 2)]

    assert sizes == [256, 64]


def test_who_misses_one_step_keeps_its_region():
    mirror = a_mirror()
    mirror.keep({(0, 0)})
    first = mirror.region((0, 0), 8, 9, TABLE)

    mirror.keep({(1, 0)})
    mirror.keep({(0, 0)})
    assert mirror.region((0, 0), 9, 10, TABLE) is first

    mirror.keep({(1, 0)})
    mirror.keep({(1, 0)})
    assert mirror.region((0, 0), 10, 11, TABLE) is not first


def test_another_stay_of_a_sequence_finds_nothing_of_the_one_before():
    mirror = a_mirror()
    mirror.region((0, 0), 8, 9, TABLE)

    for _ in range(2):
        mirror.keep({(0, 1)})
    region = mirror.region((0, 1), 8, 9, TABLE[[50, 51, 52]])

    assert a_view(mirror, region, 0, 8) == list(range(200, 208))


@pytest.mark.parametrize(
    ("num_tokens", "stops"),
    [
        pytest.param(0, [1], id="no-mirror"),
        pytest.param(63, [1], id="less-than-a-region"),
        pytest.param(192, [65, 64, 1], id="full"),
        pytest.param(256, [257], id="longer-than-all"),
    ],
)
def test_the_last_of_these_finds_no_room(num_tokens, stops):
    mirror = a_mirror(num_tokens)

    regions = [mirror.region((at, 0), 0, stop, TABLE) for at, stop in enumerate(stops)]

    assert [region is None for region in regions] == [False] * (len(stops) - 1) + [True]


def test_what_is_taken_back_grows_together_again():
    mirror = a_mirror(256)
    for at in range(4):
        mirror.region((at, 0), 0, 1, TABLE)

    for _ in range(2):
        mirror.keep(set())

    assert mirror.region((9, 0), 0, 256, TABLE).size == 256


@given(
    num_blocks=st.integers(1, 40),
    asked=st.lists(st.tuples(st.integers(0, 8), st.integers(1, 600)), max_size=40),
)
def test_regions_never_overlap_and_stay_within_the_mirror(num_blocks, asked):
    mirror = KvMirror(a_cache(num_blocks=1), num_tokens=64 * num_blocks)
    held = {}
    for owner, stop in asked:
        held.pop(owner, None)
        mirror.keep({(other, 0) for other in held})
        region = mirror.region((owner, 0), 0, stop, TABLE)
        if region is not None:
            held[owner] = region

    assert all(region.offset % region.size == 0 for region in held.values())
    spans = sorted((one.offset, one.offset + one.size) for one in held.values())
    assert all(one[1] <= two[0] for one, two in combinations(spans, 2))
    assert all(stop <= 64 * num_blocks for _, stop in spans)
