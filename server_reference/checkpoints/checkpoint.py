"""A model's folder as hubs have it: its settings, its tokens, where its weights are; no torch."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from .errors import ModelFileError
from .gguf import Metadata

__all__ = ["Checkpoint"]

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_LONGEST_NAME = 255  # bytes, on the usual filesystems


class Checkpoint:
    """One folder with `config.json` and safetensors.

    Raises:
        ModelFileError: It has no `config.json`, or one that cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = self._metadata("config.json")

    def json(self, name: str) -> dict[str, Any]:
        """One of its files; empty where there is none.

        Raises:
            ModelFileError: It is no JSON object, or cannot be read.
        """
        path = self.folder / name
        try:
            value = json.loads(path.read_bytes())
        except FileNotFoundError:
            return {}
        except (ValueError, OSError, RecursionError) as error:
            raise ModelFileError(f"{path} cannot be read: {error}; fetch it again") from error
        if not isinstance(value, dict):
            raise ModelFileError(f"{path} should hold a JSON object, not {str(value)[:60]}")
        return value

    @cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        return self.json("tokenizer_config.json")

    @property
    def chat_template(self) -> str | None:
        """The source of its template; the one called `default` where it has several."""
        path = self.folder / "chat_template.jinja"
        if path.is_file():
            return path.read_text("utf-8", "replace")
        found = self.tokenizer_config.get("chat_template")
        found = found or self.json("chat_template.json").get("chat_template")
        if isinstance(found, list):
            entries = [one for one in found if isinstance(one, dict)]
            named = [one.get("template") for one in entries if one.get("name") == "default"]
            found = named[-1] if named else None
        return found if isinstance(found, str) else None

    def special_token(self, name: str) -> str:
        """The text of `bos_token` or `eos_token`; empty where it has none."""
        token = self.tokenizer_config.get(name) or ""
        token = token.get("content", "") if isinstance(token, dict) else token
        return str(token)

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Tokens that end a turn, as its settings name them."""
        found: set[int] = set()
        for name in ("generation_config.json", "config.json"):
            ids = self.json(name).get("eos_token_id")
            found |= {one for one in (ids if isinstance(ids, list) else [ids]) if type(one) is int}
        return frozenset(found)

    def shards(self) -> dict[Path, list[str] | None]:
        """Its files of weights, each with the tensors that the index promises of it.

        Raises:
            ModelFileError: It has none, or an index that names a file elsewhere or one that
                is not there.
        """
        index = self.json(_INDEX)
        if not index:
            path = self.folder / _WEIGHTS
            if path.is_file():
                return {path: None}
            raise ModelFileError(
                f"{self.folder} has neither {_WEIGHTS} nor {_INDEX}; weights in other formats "
                "(.bin, .pth) cannot be read: convert them to safetensors"
            )
        places = index.get("weight_map")
        if not isinstance(places, dict) or not places:
            raise ModelFileError(f"{self.folder / _INDEX} has no weight_map; fetch it again")
        shards: dict[Path, list[str] | None] = {}
        for tensor, name in places.items():
            if not _is_file_name(name):
                raise ModelFileError(
                    f"{self.folder / _INDEX} puts {tensor!r} into {str(name)[:60]!r}, which is no "
                    "file of this folder"
                )
            promised = shards.setdefault(self.folder / name, [])
            assert promised is not None
            promised.append(tensor)
        absent = sorted(path.name for path in shards if not path.is_file())
        if absent:
            raise ModelFileError(
                f"{self.folder} lacks {len(absent)} of its {len(shards)} shards ({absent[0]}, …): "
                "fetch them"
            )
        return shards

    def weight_files(self) -> list[Path]:
        """All that its weights depend on: its settings, the index, the files of weights.

        Raises:
            ModelFileError: As `shards` does.
        """
        shards = self.shards()
        settings = (self.folder / name for name in ("config.json", _INDEX))
        return [*(path for path in settings if path.is_file()), *shards]

    def _metadata(self, name: str) -> Metadata:
        path = self.folder / name
        values = {key: value for key, value in self.json(name).items() if value is not None}
        if not values:
            raise ModelFileError(f"{self.folder} has no {name}: it is no model's folder")
        return Metadata(path, values, error=ModelFileError)


def _is_file_name(name: Any) -> bool:
    return (
        isinstance(name, str)
        and Path(name).name == name not in ("", ".", "..")
        and "\0" not in name
        and len(name.encode("utf-8", "replace")) <= _LONGEST_NAME
    )
