"""Find a model by its name, with what the front needs of it."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from ..downloads import hub, smollm2
from ..downloads.smollm2 import ModelUnavailableError
from ..text.tokenizer import ByteTokenizer, Tokenizer
from .checkpoint import Checkpoint
from .errors import ModelFileError
from .gguf import GgufFile
from .tokenizer_files import checkpoint_tokenizer, gguf_token_id, gguf_tokenizer

if TYPE_CHECKING:
    from ..text.chat_template import ChatTemplate

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
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model is.

    Args:
        name: What clients call it.
        gguf: Its file; `None` for a folder, and for `tiny`, which has none.
        folder: Where it lies as safetensors; `None` otherwise.
    """

    name: str
    gguf: Path | None = None
    folder: Path | None = None


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
        name: `tiny`, `smollm2`, the path of a GGUF file, which is served under its stem, or
            of a folder with safetensors, or what a hub calls a model: `organisation/model`.

    Raises:
        ModelUnavailableError: There is no such model, or it cannot be fetched.
    """
    if name == "tiny":
        return ModelFiles(name)
    if name == "smollm2":
        return ModelFiles(name, smollm2.fetch())
    path = _path(name)
    if path is not None and path.is_file():
        return ModelFiles(path.stem, path.absolute())
    if path is not None and path.is_dir():
        return ModelFiles(path.absolute().name, folder=path.absolute())
    if hub.is_hub_id(name):
        return ModelFiles(name, folder=hub.fetch(name))
    near = get_close_matches(name, _BUILT_IN, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ModelUnavailableError(
        f"there is no model {name[:_SHOWN]!r}: neither a file, nor a folder, nor one of "
        f"{', '.join(_BUILT_IN)}{hint}"
    )


def _path(name: str) -> Path | None:
    """What a name may be a path of; `None`: nothing, not even the folder that we are in."""
    try:
        path = Path(name).expanduser()
        path.is_file()
    except RuntimeError:  # of an unknown user's home
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise
    return path if name else None


def front(name: str) -> FrontModel:
    """What the front needs of a model: no weights, no torch.

    Raises:
        ModelUnavailableError: As `resolve` does.
        ModelFileError: A file is damaged, or has no tokenizer or chat template that can be used.
        ChatTemplateError: The model's template has a syntax error.
    """
    from ..text.chat_template import CHATML, ChatTemplate  # which an engine runs without

    files = resolve(name)
    if files.gguf is not None:
        return _front_of_gguf(files.name, GgufFile(files.gguf))
    if files.folder is not None:
        return _front_of_folder(files.name, Checkpoint(files.folder))
    return FrontModel(files.name, ByteTokenizer(), ChatTemplate(CHATML), TINY_MAX_CONTEXT)


def _front_of_gguf(name: str, file: GgufFile) -> FrontModel:
    metadata = file.metadata
    template = metadata.text("tokenizer.chat_template", "")
    tokens = metadata.texts("tokenizer.ggml.tokens")
    ids = {f"{kind}_token": gguf_token_id(file, kind) for kind in ("bos", "eos")}
    named = {kind: tokens[at] for kind, at in ids.items() if at is not None}
    max_context = metadata.integer(f"{metadata.text('general.architecture')}.context_length")
    tokenizer = gguf_tokenizer(file)
    return FrontModel(name, tokenizer, _template(file.path, template, named), max_context)


def _front_of_folder(name: str, checkpoint: Checkpoint) -> FrontModel:
    named = {kind: checkpoint.special_token(kind) for kind in ("bos_token", "eos_token")}
    template = _template(checkpoint.folder, checkpoint.chat_template, named)
    max_context = checkpoint.config.integer("max_position_embeddings")
    return FrontModel(name, checkpoint_tokenizer(checkpoint), template, max_context)


def _template(path: Path, source: str | None, named: dict[str, str]) -> ChatTemplate:
    from ..text.chat_template import ChatTemplate

    if not source:
        raise ModelFileError(
            f"{path} has no chat template: it is a base model; take its instruct version"
        )
    return ChatTemplate(source, **named)
