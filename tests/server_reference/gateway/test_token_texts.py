from __future__ import annotations

from server_reference.api.events import Logprob
from server_reference.core import TokenLogprob
from server_reference.gateway.token_texts import TokenTexts
from server_reference.text.tokenizer import ByteTokenizer


def test_tokens_are_told_by_their_bytes_and_control_tokens_by_their_names():
    end = ByteTokenizer().control_tokens.ids["<|im_end|>"]
    known = TokenLogprob(token_id=0xC3, logprob=-1.0, top=((0x41, -0.5), (end, -2.0)))

    (told,) = TokenTexts(ByteTokenizer()).told([known])

    assert told == Logprob(
        0xC3, b"\xc3", -1.0, (Logprob(0x41, b"A", -0.5), Logprob(end, b"<|im_end|>", -2.0))
    )
