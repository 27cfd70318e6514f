"""The runner computes what is asked for, and no more."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode


class HeadRows(TorchFunctionMode):
    """Counts the rows that a head of `vocab_size` is given."""

    def __init__(self, vocab_size):
        super().__init__()
        self.vocab_size, self.found = vocab_size, []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.nn.functional.linear and len(args[1]) == self.vocab_size:
            self.found.append(len(args[0]))
        return func(*args, **(kwargs or {}))


def test_only_the_rows_to_sample_get_logits(an_engine, a_request, tiny):
    """The head is the largest matrix of a small model; rows are padded to 16 here."""
    engine, recorder = an_engine(max_prefill_share=40)
    with HeadRows(tiny.transformer.config.vocab_size) as head:
        engine.add(a_request("a", 100, max_tokens=3))
        engine.add(a_request("b", 3, max_tokens=2))
        recorder.run(engine)

    assert {id: len(rows) for id, rows in recorder.logits.items()} == {"a": 3, "b": 2}
    assert head.found == [16] * len(head.found)
    assert len(head.found) <= 5
