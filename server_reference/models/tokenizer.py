"""Turn text into token ids and back; control tokens only where they are asked for."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from tokenizers import Tokenizer as _BytePairs
from tokenizers import models, pre_tokenizers

from .control_tokens import ControlTokens
from .gguf import GgufError, GgufFile

__all__ = ["BpeTokenizer", "ByteTokenizer", "Tokenizer"]


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

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, without a token for the start.

        `<|im_end|>` and its like are characters in it, as a user's text must be.
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

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "replace"))

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if 0 <= token_id < 256 else b""


# How text is cut before byte pairs are merged, by the file's `tokenizer.ggml.pre`. SmolLM's
# cuts every digit off first (ggml-org/llama.cpp#8609).
_GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
_PRE_TOKENIZERS: dict[str, pre_tokenizers.PreTokenizer] = {
    "gpt-2": _GPT2,
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _GPT2]),
}

# Values of `tokenizer.ggml.token_type`.
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4

# `encode` holds the interpreter's lock, for 2 s per MB, and `encode_batch_fast` does not, but
# starts the binding's threads, of which it warns when the caller forks: so only if need be.
_LONG_TEXT = 4096

# End a turn in whatever model has them as control tokens, named as its end or not.
_ALWAYS_ENDS = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>")


class BpeTokenizer:
    """Byte-level byte-pair encoding, from the metadata of a GGUF file.

    Raises:
        GgufError: The file has no such tokenizer, or one that is not supported.
    """

    def __init__(self, file: GgufFile) -> None:
        metadata = file.metadata
        self._tokens = metadata.texts("tokenizer.ggml.tokens")
        self._types = metadata.integers("tokenizer.ggml.token_type")
        if len(self._types) != len(self._tokens):
            raise GgufError(
                f"{file.path} has {len(self._tokens)} tokens but {len(self._types)} token types"
            )
        self._byte_pairs = _byte_pairs(file, self._tokens)
        self.control_tokens = ControlTokens(self._of_type(_CONTROL))
        # Found in any text, as the models' own tokenizers do: runs of spaces, `<think>`.
        self._user_defined = ControlTokens(self._of_type(_USER_DEFINED))
        self.vocab_size = len(self._tokens)
        self.eos_token_ids = self._ends(file)
        self.bos_token_id = self._start(file)
        self.longest_token = max(map(len, self._tokens), default=0)

    def token_text(self, token_id: int) -> str:
        """How the vocabulary writes a token."""
        return self._tokens[token_id]

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in self._user_defined.split(text):
            ids += [piece] if isinstance(piece, int) else self._merge(piece)
        return ids

    def token_bytes(self, token_id: int) -> bytes:
        if not 0 <= token_id < len(self._tokens):
            return b""
        text, kind = self._tokens[token_id], self._types[token_id]
        if kind == _USER_DEFINED:
            return text.encode()
        if kind != _NORMAL:
            return b""
        letters = _byte_letters()
        return b"".join(letters.get(letter) or letter.encode() for letter in text)

    def _merge(self, text: str) -> list[int]:
        # A lone surrogate, which JSON can carry, is no text: the binding would refuse it.
        valid = text.encode("utf-8", "replace").decode()
        if len(valid) < _LONG_TEXT:
            short: list[int] = self._byte_pairs.encode(valid, add_special_tokens=False).ids
            return short
        (batch,) = self._byte_pairs.encode_batch_fast([valid], add_special_tokens=False)
        long: list[int] = batch.ids
        return long

    def _of_type(self, kind: int) -> dict[str, int]:
        pairs = enumerate(zip(self._tokens, self._types, strict=True))
        return {text: token_id for token_id, (text, its) in pairs if its == kind and text}

    def _ends(self, file: GgufFile) -> frozenset[int]:
        metadata = file.metadata
        keys = [f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom")]
        named = {metadata.integer(key) for key in keys if key in metadata}
        known = self.control_tokens.ids
        return frozenset(named | {known[text] for text in _ALWAYS_ENDS if text in known})

    def _start(self, file: GgufFile) -> int | None:
        if not file.metadata.flag("tokenizer.ggml.add_bos_token", default=False):
            return None
        return file.metadata.integer("tokenizer.ggml.bos_token_id")


def _byte_pairs(file: GgufFile, tokens: list[str]) -> _BytePairs:
    kind = file.metadata.text("tokenizer.ggml.model")
    if kind != "gpt2":
        raise GgufError(
            f"{file.path} has a tokenizer of kind {kind!r}; supported is 'gpt2', byte-level BPE"
        )
    cut = file.metadata.text("tokenizer.ggml.pre", "gpt-2")
    if cut not in _PRE_TOKENIZERS:
        known = ", ".join(_PRE_TOKENIZERS)
        raise GgufError(f"{file.path} has the pre-tokenizer {cut!r}; supported are {known}")
    merges = [_pair(file, merge) for merge in file.metadata.texts("tokenizer.ggml.merges")]
    vocab = {text: token_id for token_id, text in enumerate(tokens)}
    try:
        byte_pairs = _BytePairs(models.BPE(vocab=vocab, merges=merges))
    except Exception as error:  # the binding raises nothing narrower
        raise GgufError(f"{file.path} has a vocabulary that fits no merges: {error}") from error
    byte_pairs.pre_tokenizer = _PRE_TOKENIZERS[cut]
    return byte_pairs


def _pair(file: GgufFile, merge: str) -> tuple[str, str]:
    left, space, right = merge.partition(" ")
    if not space:
        raise GgufError(f"{file.path} has the merge {merge!r}, which is no pair of tokens")
    return left, right


@cache
def _byte_letters() -> dict[str, bytes]:
    """The byte behind each letter of a byte-level vocabulary.

    Printable bytes stand for themselves; the others follow from U+0100 on.

    Source:
        openai/gpt-2, src/encoder.py (the byte alphabet).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): bytes([byte]) for byte in printable}
    return letters | {chr(0x100 + at): bytes([byte]) for at, byte in enumerate(others)}
