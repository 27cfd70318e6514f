"""Fetch a model's folder from a hub, once per user, into the cache that its own tools use."""

from __future__ import annotations

import os
import re
from pathlib import Path

from .smollm2 import ModelUnavailableError

__all__ = ["fetch", "is_hub_id"]

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
# Some repositories hold their weights twice, in formats of others.
_FILES = [
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "chat_template.json", "chat_template.jinja",
    "model.safetensors", "model-*.safetensors", "model.safetensors.index.json",
]  # fmt: skip


def is_hub_id(name: str) -> bool:
    """Whether it is of the form `organisation/model`, and no path of a GGUF file."""
    return _ID.fullmatch(name) is not None and not name.lower().endswith(".gguf")


def fetch(name: str) -> Path:
    """The folder of a model, which is downloaded unless it is here in its newest version.

    Without a connection the version that is here is taken. `HF_ENDPOINT` names another hub
    than huggingface.co, `HF_TOKEN` a token for models that ask for one.

    Raises:
        ModelUnavailableError: It cannot be had.
    """
    from huggingface_hub import snapshot_download  # takes a third of a second
    from huggingface_hub.errors import HfHubHTTPError

    endpoint = os.environ.get("HF_ENDPOINT")
    try:
        return Path(snapshot_download(name, endpoint=endpoint, allow_patterns=_FILES))
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise ModelUnavailableError(
            f"there is no folder {name!r}, and it cannot be fetched from a hub ({reason}); check "
            "the name and the connection, and set HF_TOKEN if the model asks for one"
        ) from error
