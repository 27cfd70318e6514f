"""The catalog that comes with this version: read once, when this module is first imported."""

from __future__ import annotations

from importlib.resources import files

import msgspec

from .facts import ModelFacts
from .lookup import Catalog

__all__ = ["CATALOG"]


class _File(msgspec.Struct):
    models: tuple[ModelFacts, ...]


CATALOG = Catalog(
    msgspec.json.decode(files(__package__).joinpath("catalog.json").read_bytes(), type=_File).models
)
