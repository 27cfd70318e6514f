"""Turn text into token ids and back; control tokens only where they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import cache
from typing import Protocol

from tokenizers import Tokenizer as Backend

from .control_tokens import ControlTokens

__all__ = ["BpeTokenizer", "ByteTokenizer", "TokenKind", "Tokenizer", "byte_letters"]


class Tokenizer(Protocol):
    """What the front and the engine ask of a tokenizer.

    Attributes:
        vocab_size: Token ids are below it.
        eos_token_ids: Tokens that end the model's turn.
        bos_token_id: What the model expects at the start of every prompt; `None`: nothing.
        longest_token: Characters that one token stands for at most.
        control_tokens: Tokens that steer the model and have no text.
    """

    vocab_size: int
    eos_token_ids: frozenset[int]
    bos_token_id: int | None
    longest_token: int
    control_tokens: ControlTokens

    def encode(self, text: str, *, follows: bool = False) -> list[int]:
        """Token ids of `text`, without a token for the start.

        `<|im_end|>` and its like are characters in it, as a user's text must be.

        Args:
            follows: A control token stands before it.
        """
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token stands for; `b""` for a control token and an unused id."""
        ...


class ByteTokenizer:
    """Every byte is a token; three control tokens follow them."""

    def __init__(self) -> None:
        names = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
        self.control_tokens = ControlTokens({name: 256 + at for at, name in enumerate(names)})
        self.vocab_size = 256 + len(names)
        self.eos_token_ids = frozenset(self.control_tokens.ids[name] for name in names[1:])
        self.bos_token_id: int | None = None
        self.longest_token = 1

    def encode(self, text: str, *, follows: bool = False) -> list[int]:
        return list(text.encode("utf-8", "replace"))

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if 0 <= token_id < 256 else b""


class TokenKind(IntEnum):
    """What a token of a vocabulary is, numbered as in a GGUF file."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4  # found in any text: runs of spaces, `<think>`
    UNUSED = 5
    BYTE = 6


# `encode` holds the interpreter's lock, for 2 s per MB, and `encode_batch_fast` does not, but
# starts the binding's threads, of which it warns when the caller forks: so only if need be.
_LONG_TEXT = 4096

# End a turn in whatever model has them as control tokens, named as its end or not.
_ALWAYS_ENDS = (
    "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>", "<end_of_turn>",
)  # fmt: skip


class BpeTokenizer:
    """Byte-pair encoding over bytes, or over characters with bytes for those it does not know.

    Args:
        backend: Encodes text in which control tokens are characters.
        tokens: Each token as the vocabulary writes it, by its id.
        kinds: What each is.
        over_bytes: A token is written in the letters of `byte_letters`; else as text, with
            U+2581 for a space.
        eos_token_ids: As the model's files name them; the usual ones are added, and those
            that are no tokens left out.
        bos_token_id: As `Tokenizer` has it.
        inner: For text that follows a control token, where it differs.
    """

    def __init__(
        self,
        backend: Backend,
        tokens: Sequence[str],
        kinds: Sequence[int],
        *,
        over_bytes: bool,
        eos_token_ids: Iterable[int],
        bos_token_id: int | None,
        inner: Backend | None = None,
    ) -> None:
        self._inner = inner or backend
        self._backend = backend
        self._tokens = tokens
        self._kinds = kinds
        self._over_bytes = over_bytes
        pairs = enumerate(zip(tokens, kinds, strict=True))
        control = {text: at for at, (text, its) in pairs if its == TokenKind.CONTROL and text}
        self.control_tokens = ControlTokens(control)
        self.vocab_size = len(tokens)
        ends = frozenset(control[text] for text in _ALWAYS_ENDS if text in control)
        self.eos_token_ids = ends.union(at for at in eos_token_ids if 0 <= at < len(tokens))
        self.bos_token_id = bos_token_id
        self.longest_token = max(map(len, tokens), default=0)

    def encode(self, text: str, *, follows: bool = False) -> list[int]:
        backend = self._inner if follows else self._backend
        # A lone surrogate, which JSON can carry, is no text: the binding would refuse it.
        valid = text.encode("utf-8", "replace").decode()
        if len(valid) < _LONG_TEXT:
            short: list[int] = backend.encode(valid, add_special_tokens=False).ids
            return short
        (batch,) = backend.encode_batch_fast([valid], add_special_tokens=False)
        long: list[int] = batch.ids
        return long

    def token_bytes(self, token_id: int) -> bytes:
        if not 0 <= token_id < len(self._tokens):
            return b""
        text, kind = self._tokens[token_id], self._kinds[token_id]
        if kind == TokenKind.USER_DEFINED:
            return text.encode() if self._over_bytes else text.replace("\u2581", " ").encode()
        if kind == TokenKind.BYTE:
            return bytes.fromhex(text[3:5])
        if kind != TokenKind.NORMAL:
            return b""
        if not self._over_bytes:
            return text.replace("\u2581", " ").encode()
        letters = byte_letters()
        return b"".join(letters.get(letter) or letter.encode() for letter in text)


@cache
def byte_letters() -> dict[str, bytes]:
    """The byte behind each letter of a byte-level vocabulary.

    Printable bytes stand for themselves; the others follow from U+0100 on.

    Source:
        openai/gpt-2, src/encoder.py (the byte alphabet).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): bytes([byte]) for byte in printable}
    return letters | {chr(0x100 + at): bytes([byte]) for at, byte in enumerate(others)}
