"""Paged attention on a CPU against attention written plainly."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from server_reference.attention.cpu_attention import TorchAttention, cpu_attention
from server_reference.attention.tiled_attention import TiledAttention
from tests.server_reference.attention.paged import (
    BLOCK_SIZE,
    CONFIG,
    a_batch,
    a_cache,
    attend,
    plainly,
    random_qkv,
)

BODIES = {
    "gathered": lambda config: TorchAttention(config, a_cache(config), mirror_tokens=0),
    "mirrored": lambda config: TorchAttention(config, a_cache(config), mirror_tokens=4096),
    "some-mirrored": lambda config: TorchAttention(config, a_cache(config), mirror_tokens=128),
    "tiled": lambda config: TiledAttention(config, a_cache(config)),
}
EVERY_BODY = pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
WINDOWS = replace(CONFIG, windows=(None, 7), attention_scale=0.3)


def both(one, two, rows_of_one, rows_of_two):
    return [torch.cat([a[rows_of_one], b[rows_of_two]]) for a, b in zip(one, two, strict=True)]


@EVERY_BODY
@pytest.mark.parametrize("config", [CONFIG, WINDOWS], ids=["plain", "window-and-scale"])
@pytest.mark.parametrize(
    "cuts",
    [
        pytest.param([41], id="whole"),
        pytest.param([20, 41], id="two-chunks-at-a-block"),
        pytest.param([3, 10, 41], id="chunks-within-blocks"),
        pytest.param([40, 41], id="prefill-then-decode"),
        pytest.param([8, 24, 25, 41], id="sixteen-at-a-time"),
        pytest.param(list(range(1, 42)), id="token-by-token"),
    ],
)
def test_a_sequence_in_any_chunks_agrees_with_plain_attention(body, config, cuts):
    attention, qkv, table = body(config), random_qkv(41), [9, 4, 30, 5, 17, 2, 8, 91, 7, 6, 3]

    parts = [
        attend(attention, a_batch((table, start, stop - start)), [x[start:stop] for x in qkv])
        for start, stop in zip([0, *cuts], cuts, strict=False)
    ]

    expected = plainly(*qkv, config=config)
    torch.testing.assert_close(torch.cat(parts), expected, atol=1e-5, rtol=0)


@EVERY_BODY
@pytest.mark.parametrize("config", [CONFIG, WINDOWS], ids=["plain", "window-and-scale"])
@pytest.mark.parametrize(
    "lens",
    [
        pytest.param([7, 7, 7], id="equal-lengths"),
        pytest.param([1, 4, 5, 16], id="ragged"),
        pytest.param([1, 90, 17], id="far-apart"),
    ],
)
def test_decodes_of_several_sequences_agree_with_each_alone(body, config, lens):
    attention = body(config)
    tables = [list(range(24 * at, 24 * at + -(-n // BLOCK_SIZE))) for at, n in enumerate(lens)]
    sequences = [random_qkv(n, seed=at) for at, n in enumerate(lens)]
    for at, (table, qkv, n) in enumerate(zip(tables, sequences, lens, strict=True)):
        if n > 1:
            attend(attention, a_batch((table, 0, n - 1, at)), [x[:-1] for x in qkv])

    batch = a_batch(*((table, n - 1, 1) for table, n in zip(tables, lens, strict=True)))
    last = [torch.cat([qkv[part][-1:] for qkv in sequences]) for part in range(3)]
    out = attend(attention, batch, last)

    expected = torch.cat([plainly(*qkv, config=config)[-1:] for qkv in sequences])
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)


@EVERY_BODY
def test_decodes_and_a_chunk_share_a_step(body):
    attention, one, two = body(CONFIG), random_qkv(6), random_qkv(19, seed=1)
    attend(attention, a_batch(([0, 1], 0, 5)), [x[:5] for x in one])

    batch = a_batch(([0, 1], 5, 1), ([2, 3, 4, 5, 6], 0, 19))
    out = attend(attention, batch, both(one, two, slice(5, 6), slice(19)))

    expected = torch.cat([plainly(*one)[5:], plainly(*two)])
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)


@EVERY_BODY
def test_a_layer_reads_its_own_keys_only(body):
    attention, qkv = body(CONFIG), random_qkv(5)
    attend(attention, a_batch(([0, 1], 0, 4)), [x[:4] for x in qkv], layer=0)
    attention.attend(1, *(2 * x[:4] for x in qkv))

    out = attend(attention, a_batch(([0, 1], 4, 1)), [x[4:] for x in qkv], layer=0)

    torch.testing.assert_close(out, plainly(*qkv)[4:], atol=1e-5, rtol=0)


@EVERY_BODY
def test_a_nan_stays_with_the_sequence_that_made_it(body):
    """A masked NaN is still a NaN once it is multiplied by zero."""
    attention, one, two = body(CONFIG), random_qkv(6), random_qkv(8, seed=1)
    sick = [torch.full_like(x, torch.nan) for x in two]
    attend(attention, a_batch(([2, 3], 0, 8, 7)), sick)
    attend(
        attention,
        a_batch(([0, 1], 0, 5, 0), ([4, 5], 0, 7, 1)),
        both(one, sick, slice(5), slice(7)),
    )

    batch = a_batch(([2, 3], 0, 6, 0), ([4, 5], 7, 1, 1))
    out = attend(attention, batch, both(sick, one, slice(7, 8), slice(6)))

    torch.testing.assert_close(out[1:], plainly(*one), atol=1e-5, rtol=0)


class Histories:
    """Sequences with keys, values and blocks of their own, advanced in any order."""

    def __init__(self, attention, config):
        self.attention, self.config = attention, config
        self.free = list(range(96))
        self.live = {}  # name: [tokens, table, computed, owner]
        self.born = 0

    def start(self, name, num_cached_of=None):
        """A new stay under `name`; it may share the full blocks of another."""
        self.free += self._unshared(name)
        tokens, table, computed = random_qkv(100, seed=self.born), [], 0
        if num_cached_of in self.live and num_cached_of != name:
            other, its_table, its_computed, _ = self.live[num_cached_of]
            computed = its_computed // BLOCK_SIZE * BLOCK_SIZE
            table = its_table[: computed // BLOCK_SIZE]
            shared = zip(other, tokens, strict=True)
            tokens = [torch.cat([a[:computed], b[computed:]]) for a, b in shared]
        self.live[name] = [tokens, table, computed, self.born]
        self.born += 1

    def step(self, wanted):
        """One step of `(name, num_tokens, num_rejected)`; every output is compared."""
        chunks, parts, expected = [], [], []
        for name, num_tokens, _ in sorted(wanted, key=lambda one: one[1] > 1):
            tokens, table, start, owner = self.live[name]
            stop = start + num_tokens
            while len(table) * BLOCK_SIZE < stop:
                table.append(self.free.pop(0))
            chunks.append((table, start, num_tokens, owner))
            parts.append([x[start:stop] for x in tokens])
            expected.append(plainly(*(x[:stop] for x in tokens), config=self.config)[start:])
        out = attend(
            self.attention, a_batch(*chunks), [torch.cat(x) for x in zip(*parts, strict=True)]
        )
        torch.testing.assert_close(out, torch.cat(expected), atol=1e-5, rtol=0)
        for name, num_tokens, num_rejected in wanted:
            self._advance(name, num_tokens, min(num_rejected, num_tokens - 1))

    def _advance(self, name, num_tokens, num_rejected):
        """What was rejected gets other keys and values, at the same positions."""
        live = self.live[name]
        live[2] += num_tokens - num_rejected
        if num_rejected:
            others = random_qkv(100, seed=1000 + live[2])
            pairs = zip(live[0], others, strict=True)
            live[0] = [torch.cat([a[: live[2]], b[live[2] :]]) for a, b in pairs]

    def _unshared(self, name):
        mine = self.live.pop(name, [None, []])[1]
        held = {block for _, table, _, _ in self.live.values() for block in table}
        return [block for block in mine if block not in held]


@EVERY_BODY
def test_what_is_rejected_is_not_read_after_a_long_chunk(body):
    histories = Histories(body(CONFIG), CONFIG)
    histories.start("a")

    histories.step([("a", 30, 0)])
    histories.step([("a", 5, 3)])
    histories.step([("a", 18, 0)])
    histories.step([("a", 1, 0)])


NAMES = st.sampled_from("abcd")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), NAMES, NAMES),
        st.lists(
            st.tuples(NAMES, st.sampled_from([1, 1, 1, 1, 2, 5, 18]), st.integers(0, 3)),
            min_size=1,
            max_size=4,
            unique_by=lambda one: one[0],
        ),
    ),
    max_size=25,
)


@pytest.mark.parametrize("mirror_tokens", [0, 64, 192, 1024])
@settings(max_examples=40)
@given(steps=STEPS)
def test_any_history_of_sequences_agrees_with_plain_attention(mirror_tokens, steps):
    """Rows and blocks used again, prefixes shared, drafts rejected, stays that end."""
    config = replace(CONFIG, windows=(None, 40))
    attention = TorchAttention(config, a_cache(config), mirror_tokens=mirror_tokens)
    histories = Histories(attention, config)
    for name in "abcd":
        histories.start(name)

    for step in steps:
        if step[0] == "start":
            histories.start(*step[1:])
        else:
            room = [one for one in step if histories.live[one[0]][2] + one[1] <= 90]
            if room:
                histories.step(room)


def test_the_kernel_cannot_cap_scores_so_a_model_that_does_gets_tiles():
    capped = replace(CONFIG, attention_soft_cap=5.0)

    with pytest.raises(ValueError, match="caps no scores"):
        TorchAttention(capped, a_cache())
    assert isinstance(cpu_attention("fast", capped, a_cache(), mirror_tokens=0), TiledAttention)


@pytest.mark.parametrize(
    ("numerics", "body"), [("fast", TorchAttention), ("deterministic", TiledAttention)]
)
def test_numerics_choose_the_body(numerics, body):
    assert type(cpu_attention(numerics, CONFIG, a_cache(), mirror_tokens=0)) is body
