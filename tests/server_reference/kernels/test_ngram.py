"""N-gram lookup on a device."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from server_reference.engine.speculation import NgramIndex
from tests.server_reference.kernels.interpreted import guarded, is_intact, shuffled

from server_reference.kernels.ngram import follow  # isort: skip
from server_reference.kernels.reference.ngram import follow as plainly  # isort: skip


def of_texts(texts, counts, *, num_drafts=8):
    """What `follow` takes: rows are in another order, and filled up with what ends a text."""
    history = torch.full((len(texts), max(1, *map(len, texts)) + 3), 7, dtype=torch.int32)
    rows = torch.arange(len(texts), dtype=torch.int32).flip(0)
    for row, text in zip(rows.tolist(), texts, strict=True):
        history[row, : len(text)] = torch.tensor(text, dtype=torch.int32)
    lens = [len(text) for text in texts]
    others = (guarded(torch.tensor(each, dtype=torch.int32)) for each in (lens, counts))
    return (guarded(history), guarded(rows), *others), {"num_drafts": num_drafts}


def on_the_host(text, count):
    index = NgramIndex()
    index.extend(text)
    return index.follow(count)


def drafts(texts, counts, **others):
    args, keywords = of_texts(texts, counts, **others)
    return [[token for token in row if token >= 0] for row in follow(*args, **keywords).tolist()]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param([], id="nothing"),
        pytest.param([1], id="one-token"),
        pytest.param([1, 1], id="a-pair"),
        pytest.param([1, 1, 1], id="a-pair-within-itself"),
        pytest.param([1, 2, 3, 1, 2], id="from-the-beginning"),
        pytest.param([1, 2, 3, 4], id="no-pair-twice"),
        pytest.param([9, 1, 2, 5, 8, 1, 2, 6, 9, 1, 2], id="the-longer-one-though-older"),
        pytest.param([1, 2, 5, 1, 2, 6, 1, 2], id="the-newer-of-equally-long-ones"),
        pytest.param([1, 2, 3, 4, 5, 0, 2, 3, 4, 5, 6, 2, 3, 4, 5], id="four-are-enough"),
        pytest.param([5, 6, 7] * 4, id="repeating"),
        pytest.param([3, 1, 2, 8] + [1, 2, 0] * 15 + [3, 1, 2], id="sixteenth-newest"),
        pytest.param([3, 1, 2, 8] + [1, 2, 0] * 16 + [3, 1, 2], id="seventeenth-newest"),
    ],
)
@pytest.mark.parametrize("count", [1, 3, 8])
def test_what_follows_is_what_the_host_finds(text, count):
    assert drafts([text], [count]) == [on_the_host(text, count)]


@pytest.mark.parametrize("length", [4096, 4097, 4098, 9000])
def test_a_place_far_back_is_found(length):
    """Beyond what is compared at a time, and across its edge."""
    text = [1, 2, 3, 4, *range(10, length), 1, 2, 3]

    assert drafts([text], [2]) == [[4, 10]]


def test_none_are_wanted_of_some():
    texts = [[5, 6] * 4, [5, 6] * 4, [5, 6] * 4]

    assert drafts(texts, [3, 0, 1], num_drafts=3) == [[5, 6, 5], [], [5]]


@settings(max_examples=30)
@given(
    st.lists(st.lists(st.integers(0, 3), max_size=60), min_size=1, max_size=4),
    st.integers(1, 15),
    st.integers(0, 99),
)
def test_any_texts_agree_with_host_and_twin(texts, count, seed):
    args, keywords = of_texts(texts, [count] * len(texts), num_drafts=15)
    with shuffled(seed):
        found = follow(*args, **keywords)

    assert torch.equal(found, plainly(*args, **keywords))
    on_host = [on_the_host(text, count) for text in texts]
    assert [[token for token in row if token >= 0] for row in found.tolist()] == on_host
    assert is_intact(args[0])


@pytest.mark.parametrize(
    ("at", "changed", "told"),
    [
        pytest.param(0, torch.zeros(1, 9).long(), "history must be", id="int64"),
        pytest.param(2, torch.zeros(2).int(), r"lens must be contiguous \[1\] of int32", id="two"),
        pytest.param(3, torch.zeros(1), r"counts must be .* int32", id="fp32"),
        pytest.param(1, torch.zeros(1, 1).int(), "rows must be", id="matrix"),
    ],
)
def test_what_does_not_fit_is_refused(at, changed, told):
    args, keywords = of_texts([[1, 2]], [1])
    args = (*args[:at], changed, *args[at + 1 :])

    with pytest.raises(ValueError, match=told):
        follow(*args, **keywords)


def test_numbers_that_lie_apart_are_refused():
    args, keywords = of_texts([[1, 2], [3, 4]], [1, 1])
    apart = torch.stack((args[1], args[1]), 1)[:, 0]

    with pytest.raises(ValueError, match=r"rows must be contiguous .* strides \(2,\)"):
        follow(args[0], apart, *args[2:], **keywords)


def test_there_is_a_draft_at_least():
    args, _ = of_texts([[1, 2]], [1])

    with pytest.raises(ValueError, match="num_drafts must be at least 1, not 0"):
        follow(*args, num_drafts=0)
