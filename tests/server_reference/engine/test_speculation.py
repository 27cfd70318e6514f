"""Guesses at what follows: what is found, when it is tried, and that it changes no output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_reference.core import SamplingParams, Sequence
from server_reference.engine.speculation import HostTexts, NgramIndex, Speculator, num_accepted


def a_speculator():
    return Speculator(8, HostTexts())


def an_index(*tokens):
    index = NgramIndex()
    index.extend(tokens)
    return index


def a_sequence(prompt=(1, 2, 3, 4, 1, 2), *, output=(3,), max_tokens=50):
    """A decode whose newest token is known and not computed."""
    sequence = Sequence(
        id="s",
        tenant="t",
        prompt_token_ids=list(prompt),
        params=SamplingParams(max_tokens=max_tokens),
        arrival=0,
    )
    sequence.output_token_ids = list(output)
    sequence.num_computed = sequence.target - 1
    return sequence


def drafts(speculator, *running):
    """What is proposed in the next step."""
    if speculator.is_due(running):
        speculator.propose(running)
    return [sequence.drafts for sequence in running]


@pytest.mark.parametrize(
    ("tokens", "follows"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([5, 5], [], id="one-pair"),
        pytest.param([1, 2, 3, 4, 5], [], id="no-pair-again"),
        pytest.param([1, 2, 7, 8, 9, 1, 2], [7, 8, 9, 1], id="a-pair"),
        pytest.param([1, 2, 7, 1, 2, 8, 1, 2], [8, 1, 2, 8], id="the-newest"),
        pytest.param([3, 1, 2, 7, 9, 1, 2, 8, 3, 1, 2], [7, 9, 1, 2], id="the-longest"),
        pytest.param([4, 5, 5], [], id="a-pair-is-not-its-own-past"),
        pytest.param([5, 5, 5], [5, 5, 5, 5], id="a-run-goes-on"),
        pytest.param([0, 1, 2, 1, 2], [1, 2, 1, 2], id="a-period-goes-on"),
    ],
)
def test_what_followed_the_longest_and_newest_like_the_end_is_guessed(tokens, follows):
    assert an_index(*tokens).follow(4) == follows


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(0, 40))
def test_an_index_made_in_pieces_finds_what_a_scan_finds(tokens, cut):
    index = an_index(*tokens[:cut])
    index.extend(tokens[cut:])

    found = index.follow(1)

    assert found == _scan(tokens)[:1]


def _scan(tokens):
    """What follows the longest of four to two last tokens, among the sixteen newest places."""
    pair = tokens[-2:]
    places = [at for at in range(len(tokens) - 1, 1, -1) if tokens[at - 2 : at] == pair][:16]
    for length in (4, 3, 2):
        for at in places:
            if length <= at and tokens[at - length : at] == tokens[-length:]:
                return tokens[at:]
    return []


def test_a_guess_looks_at_no_more_places_the_longer_the_text_is():
    """One scan of a long prompt per step would take longer than the step (vllm#16883)."""
    looked = []

    class Watched(NgramIndex):
        def _common(self, place):
            looked.append(place)
            return super()._common(place)

    index = Watched()
    index.extend([0, 1, 2, 3, 4] * 2000 + [7, 1, 2])
    index.follow(4)

    assert len(looked) == 16


def test_right_guesses_make_longer_ones():
    speculator, sequence = a_speculator(), a_sequence()
    lengths = []
    for _ in range(4):
        ((*guesses,),) = drafts(speculator, sequence)
        lengths.append(len(guesses))
        speculator.judge(sequence, len(guesses), len(guesses))

    assert lengths == [2, 4, 8, 8]
    assert (speculator.proposed, speculator.accepted) == (22, 22)


def test_wrong_guesses_pause_their_sequence_for_ever_longer():
    speculator, sequence = a_speculator(), a_sequence()
    tried = []
    for step in range(40):
        ((*guesses,),) = drafts(speculator, sequence)
        if guesses:
            tried.append(step)
            speculator.judge(sequence, len(guesses), 0)

    assert tried == [0, 2, 5, 10, 19, 36]


def test_a_right_guess_after_wrong_ones_ends_the_pauses():
    speculator, sequence = a_speculator(), a_sequence()
    tried = []
    for step in range(12):
        ((*guesses,),) = drafts(speculator, sequence)
        if guesses:
            tried.append(step)
            speculator.judge(sequence, len(guesses), len(guesses) if step == 5 else 0)

    assert tried == [0, 2, 5, 6, 8, 11]


@pytest.mark.parametrize(
    ("num_running", "num_drafts"), [(1, 8), (2, 7), (4, 3), (8, 1), (9, 0), (200, 0)]
)
def test_the_more_run_the_fewer_guesses_each_has_until_there_are_none(num_running, num_drafts):
    speculator = a_speculator()
    running = [a_sequence() for _ in range(num_running)]
    for _ in range(3):
        for sequence, guesses in zip(running, drafts(speculator, *running), strict=True):
            if guesses:
                speculator.judge(sequence, len(guesses), len(guesses))

    assert [len(guesses) for guesses in drafts(speculator, *running)] == [num_drafts] * num_running


@pytest.mark.parametrize(
    ("max_tokens", "num_drafts"), [pytest.param(4, 2), pytest.param(3, 1), pytest.param(2, 0)]
)
def test_no_guess_reaches_beyond_max_tokens(max_tokens, num_drafts):
    """One token is sampled after the last draft."""
    (guesses,) = drafts(a_speculator(), a_sequence(max_tokens=max_tokens))

    assert len(guesses) == num_drafts


def test_nothing_is_guessed_for_a_prompt_that_is_not_computed():
    sequence = a_sequence(output=())
    sequence.num_computed = 2

    assert drafts(a_speculator(), sequence) == [[]]


def test_a_guess_that_found_no_room_in_a_step_is_taken_back():
    """Otherwise it would be checked a step later, at another place."""
    speculator, sequence = a_speculator(), a_sequence()
    drafts(speculator, sequence)
    speculator.is_due([])

    assert sequence.drafts == []


@pytest.mark.parametrize(
    ("drawn", "accepted"), [([7, 8, 9], 2), ([7, 5, 9], 1), ([6, 8, 9], 0), ([7, None, None], 1)]
)
def test_drafts_are_right_up_to_the_first_that_is_not_what_was_drawn(drawn, accepted):
    assert num_accepted([7, 8], drawn) == accepted


def test_a_text_that_repeats_itself_takes_fewer_steps(an_engine, a_request):
    request = a_request(prompt=[7, 8, 9] * 8, max_tokens=60, temperature=0.0)
    tokens, steps = [], []
    for num_draft_tokens in (0, 8):
        engine, recorder = an_engine(num_draft_tokens=num_draft_tokens)
        engine.add(request)
        recorder.run(engine)
        tokens.append(recorder.tokens("a"))
        steps.append(engine.stats().steps)

    stats = engine.stats()
    assert tokens[0] == tokens[1]
    assert 0 < stats.draft_tokens_accepted <= stats.draft_tokens_proposed
    assert steps[1] <= steps[0] - stats.draft_tokens_accepted  # the last may only tell


def test_guesses_are_as_many_where_steps_are_scheduled_ahead(an_engine, a_request):
    """They follow tokens that are known, so that the step in flight is waited for first."""
    found = []
    for lookahead in (0, 1):
        engine, recorder = an_engine(num_draft_tokens=8, lookahead=lookahead)
        pausing = {"prompt": [7, 8, 9, 7, 8, 10, 7, 8, 11] * 3, "temperature": 1.0, "top_k": 3}
        engine.add(a_request(**pausing, seed=0, max_tokens=100))
        recorder.run(engine)
        found.append(engine.stats())

    at_once, ahead = found
    assert 0 < at_once.draft_tokens_proposed == ahead.draft_tokens_proposed
    assert ahead.draft_tokens_accepted == at_once.draft_tokens_accepted


def test_without_num_draft_tokens_nothing_is_guessed(an_engine, a_request):
    engine, recorder = an_engine()
    engine.add(a_request(prompt=[7, 8, 9] * 8, max_tokens=60))
    recorder.run(engine)

    assert engine.stats().draft_tokens_proposed == 0
