"""Sums over calls, for people and for programs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from smartclient.prompt_cache import CacheSavings, MarkUse
from smartclient.wire import Usage

WRITE = Usage(uncached=100, cache_write={"5m": 900}, output=1)
READ = Usage(uncached=100, cache_read=900, output=1)


def added(*calls, **options):
    """Calls of one lane: seconds and usage."""
    sums = CacheSavings(**options)
    for now, usage in calls:
        sums.add(usage, model="m", now=now, lane="a", ttl=300.0, savings=Decimal("0.25"))
    return sums


def test_the_hit_ratio_is_of_tokens_not_of_calls():
    sums = added((0.0, WRITE), (1.0, READ), (2.0, Usage(uncached=10_000, cache_read=0)))

    assert sums.total.hit_ratio == 900 / 12_000


def test_without_input_there_is_no_ratio():
    assert added((0.0, None)).total.hit_ratio is None


def test_a_read_in_time_wastes_nothing():
    sums = added((0.0, WRITE), (299.0, READ))
    sums.expire(now=1e9)

    assert sums.total.wasted == 0


def test_what_nobody_reads_in_time_is_wasted():
    sums = added((0.0, WRITE), (301.0, WRITE))

    assert sums.total.wasted == 900


def test_a_read_proves_that_nothing_had_expired():
    sums = added((0.0, WRITE), (301.0, READ))

    assert sums.total.wasted == 0


def test_waste_is_seen_without_another_call():
    sums = added((0.0, WRITE))

    sums.expire(now=300.0)

    assert [sums.tallies(kind).popitem()[1].wasted for kind in ("models", "lanes")] == [900, 900]


def test_each_time_to_live_expires_on_its_own():
    sums = CacheSavings()
    usage = Usage(uncached=1, cache_write={"1h": 70, "5m": 30}, output=1)
    sums.add(usage, model="m", now=0.0, ttl={"5m": 300.0, "1h": 3600.0})

    sums.expire(now=301.0)

    assert sums.total.wasted == 30


def test_lanes_do_not_read_each_other():
    sums = CacheSavings()
    for lane, usage in (("a", WRITE), ("b", READ)):
        sums.add(usage, model="m", now=0.0, lane=lane, ttl=300.0)

    sums.expire(now=300.0)

    assert {name: one.wasted for name, one in sums.tallies("lanes").items()} == {"a": 900, "b": 0}


def test_marks_are_added_up_by_their_paths():
    sums = CacheSavings()
    marks = [MarkUse(path="system[1]", read=700), MarkUse(path="messages[2]", written=200)]
    for now in (0.0, 1.0):
        sums.add(READ, model="m", now=now, marks=marks)

    told = {name: (one.read, one.written) for name, one in sums.tallies("marks").items()}

    assert told == {"system[1]": (1400, 0), "messages[2]": (0, 400)}


def test_savings_that_are_unknown_are_counted_apart():
    sums = added((0.0, READ), (1.0, READ))
    sums.add(READ, model="m", now=2.0)

    assert (sums.total.savings, sums.total.unpriced) == (Decimal("0.5"), 1)


def test_names_are_bounded_and_nothing_is_lost():
    sums = CacheSavings(max_names=3)
    for number in range(10):
        sums.add(READ, model="m", now=0.0, lane=f"lane {number}")

    lanes = sums.tallies("lanes")

    assert sorted(lanes) == ["(others)", "lane 7", "lane 8", "lane 9"]
    assert sum(one.calls for one in lanes.values()) == 10


def test_no_names_at_all_are_refused():
    with pytest.raises(ValueError, match="max_names must be at least 1, not 0"):
        CacheSavings(max_names=0)


def test_it_is_exported_as_plain_values():
    told = json.loads(json.dumps(added((0.0, WRITE), (1.0, READ)).to_dict()))

    assert told["total"] == {
        "calls": 2,
        "input_tokens": 2000,
        "read": 900,
        "written": 900,
        "wasted": 0,
        "savings": "0.50",
        "unpriced": 0,
        "hit_ratio": 0.45,
    }
    assert (list(told), list(told["lanes"])) == (["total", "models", "lanes", "marks"], ["a"])


def test_the_table_is_for_people():
    sums = added((0.0, WRITE), (1.0, READ))
    sums.add(READ, model="other", now=2.0, savings=Decimal("-1.5"))

    assert str(sums).splitlines() == [
        "             calls  input   read    hit  written  wasted     saved",
        "m                2  2,000    900  45.0%      900       0   $0.5000",
        "other            1  1,000    900  90.0%        0       0  -$1.5000",
        "all models       3  3,000  1,800  60.0%      900       0  -$1.0000",
        "lane a           2  2,000    900  45.0%      900       0   $0.5000",
        "lane (none)      1  1,000    900  90.0%        0       0  -$1.5000",
    ]


def test_without_lanes_there_is_a_line_for_each_model_only():
    sums = CacheSavings()
    sums.add(READ, model="m", now=0.0, savings=Decimal(1))
    sums.add(READ, model="m", now=0.0)

    _, line = str(sums).splitlines()

    assert line == "m      2  2,000  1,800  90.0%        0       0  $1.0000 (1 unknown)"


def test_what_nobody_read_is_remembered_for_so_many_lanes():
    sums = CacheSavings(max_names=2)
    for lane in "abc":
        sums.add(WRITE, model="m", now=0.0, lane=lane, ttl=300.0)

    sums.expire(now=300.0)

    assert sums.total.wasted == 1800


def test_an_empty_table_has_a_head_and_nothing_to_divide():
    assert "calls" in CacheSavings().table()


def test_threads_may_share_one():
    sums = CacheSavings()

    with ThreadPoolExecutor(8) as pool:
        for _ in range(400):
            pool.submit(sums.add, READ, model="m", now=0.0, savings=Decimal(1))

    assert (sums.total.calls, sums.total.savings) == (400, 400)
