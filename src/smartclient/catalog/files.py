"""A user's file of models: JSON in which nothing is said twice and every number is one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

__all__ = ["models_of"]


def models_of(path: str | os.PathLike[str]) -> list[tuple[str, Mapping[str, Any]]]:
    """The models of a file: each name, and the fields given for it.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not JSON, or not a list of models under `models`.
    """
    where = os.fspath(path)
    try:
        told = json.loads(
            Path(path).read_bytes(),
            parse_float=Decimal,
            parse_constant=_refused,
            object_pairs_hook=_once,
        )
    except (ValueError, RecursionError) as error:  # bytes that are not UTF-8 included
        raise ValueError(f"{where}: not a file of models: {error}") from None
    models = told.get("models") if isinstance(told, dict) else None
    if not isinstance(models, list) or len(told) != 1:
        raise ValueError(f'{where}: must hold {{"models": [...]}} and nothing beside it')
    return [_named(record, f"{where}: models[{number}]") for number, record in enumerate(models)]


def _named(record: Any, where: str) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(record, dict) or not isinstance(record.get("name"), str):
        raise ValueError(f"{where}: must be an object with a name")
    return record["name"], {key: value for key, value in record.items() if key != "name"}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for key, value in pairs:
        if key in told:
            raise ValueError(f"{key!r} is given twice in one object")
        told[key] = value
    return told


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number that anything can cost")
