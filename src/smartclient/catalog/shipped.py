"""The catalog that comes with this version: read once, when this module is first imported."""

from __future__ import annotations

from pkgutil import get_data  # importlib.resources takes ten times as long to load

import msgspec

from .facts import ModelFacts
from .lookup import Catalog

__all__ = ["CATALOG"]


class _File(msgspec.Struct):
    models: tuple[ModelFacts, ...]


CATALOG = Catalog(
    msgspec.json.decode(get_data(__package__, "catalog.json") or b"", type=_File).models
)
