"""What each row of a step is drawn with."""

from __future__ import annotations

from server_reference.core import SamplingParams, Sequence
from server_reference.engine.rules import Rules
from server_reference.engine.scheduler import Scheduled


def test_a_guess_counts_for_the_rows_behind_it():
    """A penalty must know them, or a token that is taken was drawn with another one."""
    params = SamplingParams(max_tokens=9, frequency_penalty=1.0)
    sequence = Sequence(id="s", tenant="", prompt_token_ids=[1, 2], params=params, arrival=0)
    sequence.output_token_ids, sequence.drafts = [4], [5, 6, 7]
    rules = Rules(seed=0, eos=frozenset(), compile=lambda grammar: None)

    entry = Scheduled(sequence, 2, 3, reaches_target=True, num_drafts=2, output_index=1)
    draws = rules.draws(entry)

    assert [list(draw.output) for draw in draws] == [[4], [4, 5], [4, 5, 6]]
    assert [draw.index for draw in draws] == [1, 2, 3]
