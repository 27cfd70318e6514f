"""Where cuts fall, and what they cost a cache that reads common prefixes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from smartclient.tokens.conversation import Group
from smartclient.tokens.cutting import Bounds, Cut, cuts

HEAD, TURN = 5_000, 500  # tokens


def turns(number):
    """A turn of the user and an answer, again and again; the last is not answered."""
    asked = [Group([place], is_turn=True, asks=True, is_sent=True) for place in range(number)]
    answers = [Group([place], is_turn=False, asks=False, is_sent=False) for place in range(number)]
    return [group for pair in zip(asked, answers, strict=True) for group in pair][:-1]


def steps(number):
    step = Group([0], is_turn=False, asks=False, is_sent=True)
    return [Group([0], is_turn=True, asks=True, is_sent=True), *[step] * number]


def cut(groups, *, size=10, **given):
    given = {"allowed": 100, "target": 0.6, "fixed": 0, **given}
    return cuts(groups, [size] * len(groups), Bounds(**given))


def test_what_fits_is_not_cut():
    assert cut(turns(5)) == []


def test_a_cut_goes_deep_and_to_the_beginning_of_a_turn():
    assert cut(turns(6)) == [Cut(10, [0, 1, 2, 3, 4, 5])]


def test_an_answer_that_waits_for_the_user_is_no_place_to_cut():
    """No request ends with it: the next turn decides, and may then drop what is whole."""
    assert cut(turns(6), allowed=95) == [Cut(10, [0, 1, 2, 3, 4, 5])]


def test_the_head_is_no_part_of_the_share():
    """A long system prompt would else make every cut as deep as can be."""
    assert cut(turns(6), fixed=900, allowed=1000) == [Cut(10, [0, 1, 2, 3, 4, 5])]


def test_cuts_follow_from_what_was_there_alone():
    """Whatever comes later, earlier cuts are the same."""
    whole = cut(turns(40))

    assert all(cut(turns(number)) == whole[: len(cut(turns(number)))] for number in range(1, 40))
    assert len(whole) > 5


def test_room_is_held_for_a_summary():
    assert cut(turns(6), summary=20) == [Cut(10, [0, 1, 2, 3, 4, 5, 6, 7])]


def test_pinned_groups_stay():
    assert cut(turns(6), pinned=2) == [Cut(10, [2, 3, 4, 5, 6, 7])]


def test_one_long_turn_loses_its_oldest_steps():
    assert cut(steps(10)) == [Cut(10, [1, 2, 3, 4, 5])]


def test_a_last_turn_that_fits_stays_whole_even_above_the_share():
    groups = [*turns(2), *steps(7)]

    assert cut(groups) == [Cut(10, [0, 1, 2])]


def test_what_must_stay_stays_though_it_does_not_fit():
    assert cut(steps(3), size=60) == [Cut(2, [1]), Cut(3, [2])]


def rewritten(target, *, calls=200, allowed=40_000):
    """Tokens of all calls that are not read from a cache of common prefixes."""
    found = []
    for number in range(1, calls + 1):
        groups = turns(number)
        bounds = Bounds(allowed=allowed, target=target, fixed=HEAD)
        dropped = {
            one for each in cuts(groups, [TURN] * len(groups), bounds) for one in each.dropped
        }
        found.append([one for one in range(len(groups)) if one not in dropped])
    written = HEAD + TURN
    for before, now in pairwise(found):
        pairs = zip(before, now, strict=False)
        same = next((n for n, (old, new) in enumerate(pairs) if old != new), len(before))
        written += TURN * (len(now) - same)
    return written


def test_seldom_and_deep_writes_a_thirteenth_of_what_a_sliding_window_does():
    """The figures in docs/how-to/fit-a-conversation.md."""
    deep, sliding = rewritten(0.6), rewritten(1.0)

    assert (deep, sliding) == (419_000, 5_732_000)


@pytest.mark.parametrize("target", [0.4, 0.6, 0.8])
def test_it_holds_for_any_share(target):
    assert rewritten(target) < rewritten(1.0) / 3
