"""Find a model by its name, with what the front needs of it."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ..downloads import smollm2
from ..downloads.smollm2 import ModelUnavailableError
from .chat_template import CHATML, ChatTemplate
from .gguf import GgufError, GgufFile
from .tokenizer import BpeTokenizer, ByteTokenizer, Tokenizer

__all__ = [
    "TINY_MAX_CONTEXT",
    "FrontModel",
    "ModelFiles",
    "ModelUnavailableError",
    "front",
    "resolve",
]

TINY_MAX_CONTEXT = 4096

_BUILT_IN = ("tiny", "smollm2")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model is.

    Args:
        name: What clients call it.
        gguf: Its file; `None` for `tiny`, which has none.
    """

    name: str
    gguf: Path | None


@dataclass(frozen=True, slots=True)
class FrontModel:
    """What can be known of a model without running it.

    Args:
        name: What clients call it.
        max_context: Tokens that it was made for, prompt and output together.
    """

    name: str
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    max_context: int


def resolve(name: str) -> ModelFiles:
    """Find a model's files, and fetch them when they can be.

    Args:
        name: `tiny`, `smollm2`, or the path of a GGUF file, which is served under its stem.

    Raises:
        ModelUnavailableError: There is no such file, and the name is not a built-in one, or
            `smollm2` cannot be fetched.
    """
    if name == "tiny":
        return ModelFiles(name, None)
    if name == "smollm2":
        return ModelFiles(name, smollm2.fetch())
    path = Path(name).expanduser()
    if path.is_file():
        return ModelFiles(path.stem, path.absolute())
    near = get_close_matches(name, _BUILT_IN, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ModelUnavailableError(
        f"there is no model {name!r}: neither a file nor one of {', '.join(_BUILT_IN)}{hint}"
    )


def front(name: str) -> FrontModel:
    """What the front needs of a model: no weights, no torch.

    Raises:
        ModelUnavailableError: As `resolve` does.
        GgufError: The file is damaged, or has no tokenizer or chat template that can be used.
        ChatTemplateError: The file's template has a syntax error.
    """
    files = resolve(name)
    if files.gguf is None:
        return FrontModel(files.name, ByteTokenizer(), ChatTemplate(CHATML), TINY_MAX_CONTEXT)
    return _front_of(files.name, GgufFile(files.gguf))


def _front_of(name: str, file: GgufFile) -> FrontModel:
    metadata = file.metadata
    if "tokenizer.chat_template" not in metadata:
        raise GgufError(
            f"{file.path} has no chat template: it is a base model; take its instruct version"
        )
    tokenizer = BpeTokenizer(file)
    named = {
        f"{kind}_token": tokenizer.token_text(metadata.integer(f"tokenizer.ggml.{kind}_token_id"))
        for kind in ("bos", "eos")
        if f"tokenizer.ggml.{kind}_token_id" in metadata
    }
    template = ChatTemplate(metadata.text("tokenizer.chat_template"), **named)
    architecture = metadata.text("general.architecture")
    return FrontModel(name, tokenizer, template, metadata.integer(f"{architecture}.context_length"))
