"""Grammars, and what their masks allow."""

from __future__ import annotations

import json

import torch

from server_reference.core import Grammar
from server_reference.kernels.draw import banned_tokens
from server_reference.kernels.sampler import sample
from tests.server_reference.engine.sampling import a_draw

__all__ = ["a_grammar", "generated", "text_of", "tokens_of"]


def a_grammar(kind, source):
    return Grammar(kind=kind, source=source if isinstance(source, str) else json.dumps(source))


def tokens_of(mask):
    words = mask.numpy().view("uint32")
    return {32 * at + bit for at, word in enumerate(words) for bit in range(32) if word >> bit & 1}


def generated(state, tokenizer, *, seed, most=200, **params):
    """The tokens that a model of random logits draws, up to the one that ends its turn."""
    noise = torch.Generator().manual_seed(seed)
    tokens = []
    draws = {"grammar": a_grammar("choice", ["any"]), **params}
    while len(tokens) < most:
        logits = torch.randn(1, tokenizer.vocab_size, generator=noise) * 2
        draw = a_draw(seed=seed, index=len(tokens), allowed=state.allowed(), **draws)
        banned = banned_tokens(draw.params, tokenizer.eos_token_ids, len(tokens))
        draw = a_draw(seed=seed, index=len(tokens), allowed=state.allowed(), banned=banned, **draws)
        (token,) = sample(logits, [draw]).host_tokens()
        assert state.advance(token)
        if token in tokenizer.eos_token_ids:
            return tokens
        tokens.append(token)
    return tokens


def text_of(tokens, tokenizer):
    return b"".join(map(tokenizer.token_bytes, tokens)).decode()
