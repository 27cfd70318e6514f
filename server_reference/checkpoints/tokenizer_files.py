"""Make a tokenizer from a model's files: a GGUF file's metadata, a folder's `tokenizer.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from ..text.tokenizer import BpeTokenizer, TokenKind, byte_letters
from .checkpoint import Checkpoint
from .errors import ModelFileError
from .gguf import GgufError, GgufFile

__all__ = ["checkpoint_tokenizer", "gguf_token_id", "gguf_tokenizer"]

# How text is cut before byte pairs are merged, by the file's `tokenizer.ggml.pre`.
#
# Source: ggml-org/llama.cpp, src/llama-vocab.cpp, `llm_tokenizer_bpe`, which has them from the
# models' own tokenizer.json.
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LLAMA3 = (
    _ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CUTS = {
    "gpt-2": [r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
    "llama-bpe": [_LLAMA3],
    "qwen2": [_LLAMA3.replace("{1,3}", "")],
}
_CUTS["deepseek-r1-qwen"] = _CUTS["qwen2"]
_CUTS["smollm"] = [r"\p{N}", *_CUTS["gpt-2"]]
_WHOLE_WORDS = ("llama-bpe",)  # a word that is a token is not merged from others
_MOST_TOKENS = 2**22  # the largest vocabularies have some 300,000


def gguf_tokenizer(file: GgufFile) -> BpeTokenizer:
    """The file's tokenizer.

    Raises:
        GgufError: It has none, or one that is not supported.
    """
    metadata = file.metadata
    tokens = metadata.texts("tokenizer.ggml.tokens")
    kinds = metadata.integers("tokenizer.ggml.token_type")
    if len(kinds) != len(tokens):
        raise GgufError(f"{file.path} has {len(tokens)} tokens but {len(kinds)} token types")
    kind = metadata.text("tokenizer.ggml.model")
    cut = metadata.text("tokenizer.ggml.pre", "gpt-2")
    match kind:
        case "gpt2":
            backend = _over_bytes(file, tokens, cut)
        case "llama":
            backend = _over_characters(file, tokens, kinds)
        case _:
            raise GgufError(
                f"{file.path} has a tokenizer of kind {kind!r}; take a model with 'gpt2' "
                "(byte-level BPE) or 'llama' (SentencePiece)"
            )
    added = [text for text, its in zip(tokens, kinds, strict=True) if its == TokenKind.USER_DEFINED]
    backend.add_tokens([AddedToken(text, normalized=False) for text in added if text])
    ends = {gguf_token_id(file, name) for name in ("eos", "eot", "eom")}
    starts = kind == "llama" or cut in _WHOLE_WORDS
    starts = metadata.flag("tokenizer.ggml.add_bos_token", default=starts)
    return BpeTokenizer(
        backend,
        tokens,
        kinds,
        over_bytes=kind == "gpt2",
        eos_token_ids={end for end in ends if end is not None},
        bos_token_id=gguf_token_id(file, "bos") if starts else None,
    )


def gguf_token_id(file: GgufFile, name: str) -> int | None:
    """The token that a file names as its `bos`, `eos` and so on; `None`: none that it has.

    Source: ggml-org/llama.cpp, src/llama-vocab.cpp, "bad special token", which passes over
    ids beyond the vocabulary too.
    """
    key = f"tokenizer.ggml.{name}_token_id"
    found = file.metadata.integer(key) if key in file.metadata else -1
    return found if 0 <= found < len(file.metadata.texts("tokenizer.ggml.tokens")) else None


def _over_bytes(file: GgufFile, tokens: list[str], cut: str) -> Backend:
    if cut not in _CUTS:
        known = ", ".join(_CUTS)
        raise GgufError(
            f"{file.path} has the pre-tokenizer {cut!r}; supported are {known}: take the model as "
            "a folder, whose tokenizer.json is used as it is"
        )
    merges = [_pair(file, merge) for merge in file.metadata.texts("tokenizer.ggml.merges")]
    backend = _backend(file, tokens, merges, ignore_merges=cut in _WHOLE_WORDS)
    steps: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in _CUTS[cut]
    ]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    # Bytes that are no tokens are left out, but nothing is merged across them.
    missing = "".join(byte_letters().keys() - set(tokens))
    if missing:
        steps.append(pre_tokenizers.Split(Regex(f"[{re.escape(missing)}]"), "removed"))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return backend


def _over_characters(file: GgufFile, tokens: list[str], kinds: list[int]) -> Backend:
    scores = file.metadata.numbers("tokenizer.ggml.scores")
    if len(scores) != len(tokens):
        raise GgufError(f"{file.path} has {len(tokens)} tokens but {len(scores)} scores")
    merges = sorted(_splits(tokens, kinds), key=lambda merge: -scores[merge[2]])
    pairs = [(left, right) for left, right, _ in merges]
    backend = _backend(file, tokens, pairs, byte_fallback=True, unk_token=tokens[0])
    steps: list[normalizers.Normalizer] = [normalizers.Replace(" ", "\u2581")]
    if file.metadata.flag("tokenizer.ggml.add_space_prefix", default=True):
        steps.insert(0, normalizers.Prepend("\u2581"))
    backend.normalizer = normalizers.Sequence(steps)
    return backend


def _splits(tokens: list[str], kinds: list[int]) -> Iterator[tuple[str, str, int]]:
    """Each way to make one token of two, with its id."""
    usual = {TokenKind.NORMAL, TokenKind.USER_DEFINED, TokenKind.UNUSED}
    known = {text for text, kind in zip(tokens, kinds, strict=True) if kind in usual}
    for token_id, text in enumerate(tokens):
        if kinds[token_id] not in usual:
            continue
        for at in range(1, len(text)):
            if text[:at] in known and text[at:] in known:
                yield text[:at], text[at:], token_id


def _backend(
    file: GgufFile, tokens: list[str], merges: list[tuple[str, str]], **how: bool | str
) -> Backend:
    vocab = {text: token_id for token_id, text in enumerate(tokens)}
    try:
        return Backend(models.BPE(vocab=vocab, merges=merges, **how))
    except Exception as error:  # the binding raises nothing narrower
        raise GgufError(f"{file.path} has a vocabulary that fits no merges: {error}") from error


def _pair(file: GgufFile, merge: str) -> tuple[str, str]:
    left, space, right = merge.partition(" ")
    if not space:
        raise GgufError(f"{file.path} has the merge {merge!r}, which is no pair of tokens")
    return left, right


def checkpoint_tokenizer(checkpoint: Checkpoint) -> BpeTokenizer:
    """The tokenizer of a folder.

    Raises:
        ModelFileError: It has none, or one of another kind.
    """
    path = checkpoint.folder / "tokenizer.json"
    source = checkpoint.json(path.name)
    if not source:
        raise ModelFileError(
            f"{checkpoint.folder} has no tokenizer.json, and other kinds of tokenizer cannot be "
            "read; transformers makes one: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
        )
    backend = _from_json(checkpoint, source)
    decoder = repr(backend.decoder)
    if "ByteLevel" not in decoder and "ByteFallback" not in decoder:
        raise ModelFileError(
            f"{path} decodes by {decoder[:60]}; supported are ByteLevel and ByteFallback: take a "
            "model with one of these"
        )
    tokens, kinds = _vocabulary(path, backend)
    ids = backend.get_vocab(with_added_tokens=True)
    start = ids.get(checkpoint.special_token("bos_token"))
    starts = _encoded(path, backend, "")[:1] == [start]
    starts = checkpoint.tokenizer_config.get("add_bos_token") or starts
    end = ids.get(checkpoint.special_token("eos_token"))
    inner = _without_prefix(source)
    return BpeTokenizer(
        backend,
        tokens,
        kinds,
        over_bytes="ByteLevel" in decoder,
        eos_token_ids=checkpoint.eos_token_ids | ({end} if end is not None else set()),
        bos_token_id=start if starts else None,
        inner=_from_json(checkpoint, inner) if inner != source else None,
    )


def _from_json(checkpoint: Checkpoint, source: dict[str, Any]) -> Backend:
    try:
        backend = Backend.from_str(json.dumps(source))
    except Exception as error:  # the binding raises nothing narrower
        path = checkpoint.folder / "tokenizer.json"
        raise ModelFileError(f"{path} cannot be used: {error}") from error
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True  # control tokens in text are characters
    return backend


def _encoded(path: Path, backend: Backend, text: str) -> list[int]:
    """The ids of a text: not every file that can be read can be used."""
    try:
        ids: list[int] = backend.encode(text).ids
    except BaseException as error:
        if (
            isinstance(error, Exception) or type(error).__name__ == "PanicException"
        ):  # the binding's
            raise ModelFileError(f"{path} cannot be used: {error}") from error
        raise
    return ids


def _vocabulary(path: Path, backend: Backend) -> tuple[list[str], list[int]]:
    vocab = backend.get_vocab(with_added_tokens=True)
    last = max(vocab.values(), default=-1)
    if last >= _MOST_TOKENS:
        raise ModelFileError(f"{path} has a token of the id {last:,}; at most {_MOST_TOKENS:,} do")
    tokens = [""] * (last + 1)
    kinds = [int(TokenKind.UNUSED)] * len(tokens)
    for text, at in vocab.items():
        is_byte = re.fullmatch("<0x[0-9A-F]{2}>", text)
        tokens[at], kinds[at] = text, TokenKind.BYTE if is_byte else TokenKind.NORMAL
    for at, added in backend.get_added_tokens_decoder().items():
        kinds[at] = TokenKind.CONTROL if added.special else TokenKind.USER_DEFINED
    return tokens, kinds


def _without_prefix(value: Any) -> Any:
    """The same settings, but for text that stands behind a control token: no space before it."""
    if not isinstance(value, dict):
        return [_without_prefix(one) for one in value] if isinstance(value, list) else value
    if value.get("type") == "Metaspace" and value.get("prepend_scheme") == "first":
        return value | {"prepend_scheme": "never"}
    return {
        key: _without_prefix(one) if key in ("pre_tokenizer", "pretokenizers") else one
        for key, one in value.items()
    }
