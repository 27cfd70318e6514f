"""A catalog: facts by any name that a model goes by, and a user's own laid over them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, TypeAlias

from msgspec.structs import replace

from .. import _observers
from .facts import ModelFacts
from .names import readings
from .records import laid_over
from .regions import in_region

__all__ = ["Catalog", "CatalogLike", "builtin", "catalog_of"]

_MAX_REMEMBERED = 1024
"""Names whose answer is kept, and unknown ones that are warned of: they may come from users."""


class Catalog:
    """Facts about models, looked up by any name they go by.

    It never changes, so that threads share it: `override` and `read` return another one.

    Args:
        records: The models that it knows.

    Raises:
        ValueError: Two records claim the same name.
    """

    def __init__(self, records: Sequence[ModelFacts]) -> None:
        self._records = tuple(records)
        self._by_name: dict[str, ModelFacts] = {}
        for record in self._records:
            for name in (record.name, *record.aliases):
                other = self._by_name.setdefault(name.lower(), record)
                if other is not record:
                    raise ValueError(f"two models are called {name!r}: {other.name}, {record.name}")
        self._found: dict[str, ModelFacts | None] = {}
        self._unknown: set[str] = set()
        self._lock = Lock()

    def __iter__(self) -> Iterator[ModelFacts]:
        return iter(self._records)

    def __contains__(self, name: str) -> bool:
        """Whether `model` would find facts; nothing is logged."""
        return self._look_up(name) is not None

    def near(self, name: str, most: int = 3) -> list[str]:
        """Names that `name` may have been meant to be, the nearest first."""
        from difflib import get_close_matches  # for who made a mistake

        return get_close_matches(name.strip().lower(), list(self._by_name), n=most)

    def model(self, name: str, *, served: str | None = None) -> ModelFacts | None:
        """The facts of the model that `name` means, or `None` and one warning in the log.

        Dates (`-20250929`, `-2025-04-14`, `@20250929`), gateways (`openai/`, `azure/`,
        `openrouter/anthropic/`), Bedrock's names and ARNs, and `ft:` names are understood.
        Prices are the maker's; where a name holds a region that costs more they include it,
        and for a region or a fine-tune whose prices are unknown they are `None`.

        Args:
            served: What the reply calls the model, which counts where `name` is not known: it
                may be an alias, or the name of a deployment.
        """
        facts = self._remembered(name)
        if facts is None and served is not None:
            facts = self._remembered(served)
        if facts is None:
            self._warn(name)
        return facts

    def _remembered(self, name: str) -> ModelFacts | None:
        if name in self._found:
            return self._found[name]
        facts = self._look_up(name)
        if len(self._found) >= _MAX_REMEMBERED:
            self._found.clear()
        self._found[name] = facts
        return facts

    def override(self, models: Mapping[str, Mapping[str, Any]]) -> Catalog:
        """Another catalog, with fields of these models replaced one by one.

        A name that is known by its date, gateway or cloud gets a record of its own, which
        begins as that of the model it means; a name that is not known, an empty one.

        Args:
            models: By name, the fields of `ModelFacts`; `None` makes one unknown.

        Raises:
            ValueError: Names the model and the field that cannot be.
        """
        if not isinstance(models, Mapping):
            raise TypeError(f"models must map names to fields, not {type(models).__name__}")
        return self._laid_over(list(models.items()), where="override()")

    def read(self, path: str | os.PathLike[str]) -> Catalog:
        """Another catalog, with what a JSON file says laid over this one.

        The file holds `{"models": [{"name": ..., ...}, ...]}`, with the fields of
        `ModelFacts`; each replaces what is known, and `null` makes it unknown.

        Raises:
            OSError: It cannot be read.
            ValueError: Names the file, the model and the field that cannot be.
        """
        from .files import models_of  # most programs have no file of their own

        return self._laid_over(models_of(path), where=os.fspath(path))

    def _look_up(self, name: str) -> ModelFacts | None:
        if not isinstance(name, str):
            raise TypeError(f"a model's name is text, not {type(name).__name__}")
        for reading in readings(name):
            facts = self._by_name.get(reading.name)
            if facts is not None:
                prices = facts.fine_tuned if reading.is_fine_tuned else facts.prices
                if reading.region is not None:
                    prices = in_region(prices, reading.region)
                return facts if prices is facts.prices else replace(facts, prices=prices)
        return None

    def _warn(self, name: str) -> None:
        with self._lock:
            if name in self._unknown or len(self._unknown) >= _MAX_REMEMBERED:
                return
            self._unknown.add(name)
        _observers.warned(
            "no facts about the model %.200r: its cost and limits stay unknown; "
            "give them by smartclient.catalog.override() or a file",
            name,
        )

    def _laid_over(self, models: list[tuple[str, Mapping[str, Any]]], *, where: str) -> Catalog:
        records = {record.name: record for record in self._records}
        seen: dict[str, str] = {}
        for name, given in models:
            if not isinstance(name, str) or not name.strip():
                raise ValueError(f"{where}: a model's name must be text, not {name!r}")
            place = f"{where}: model {name!r}"
            if not isinstance(given, Mapping):
                raise ValueError(f"{place}: must be a mapping of fields, not {given!r}")
            if "name" in given:
                raise ValueError(f"{place}: name cannot be replaced; add to aliases instead")
            own = self._by_name.get(name.strip().lower())
            base = own or self._look_up(name) or ModelFacts(name=name)
            if own is None:
                base = replace(base, name=name.strip(), aliases=())
            before = seen.get(base.name.lower())
            if before is not None:
                raise ValueError(f"{place}: given twice, as {before!r} before")
            seen[base.name.lower()] = name
            source = given.get("source") or " over ".join(filter(None, (where, base.source)))
            records[base.name] = laid_over(base, {**given, "source": source}, where=place)
        try:
            return Catalog(list(records.values()))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None


def builtin() -> Catalog:
    """The catalog that comes with this version, read when it is first asked for."""
    from .shipped import CATALOG  # an import happens once, however many threads ask

    return CATALOG


CatalogLike: TypeAlias = "Catalog | Mapping[str, Mapping[str, Any]] | str | os.PathLike[str]"
"""A catalog, or what is laid over ours: fields by model, or a file of them."""


def catalog_of(
    given: Catalog | Mapping[str, Mapping[str, Any]] | str | os.PathLike[str] | None,
) -> Catalog:
    """The catalog that is meant: itself, ours, or what is given laid over ours.

    Raises:
        OSError: A file cannot be read.
        TypeError: It is none of these.
        ValueError: Names the file, the model and the field that cannot be.
    """
    if given is None:
        return builtin()
    if isinstance(given, Catalog):
        return given
    if isinstance(given, Mapping):
        return builtin().override(given)
    if isinstance(given, str | os.PathLike):
        return builtin().read(given)
    raise TypeError(
        "a catalog is a Catalog, a path or a mapping of models to fields, "
        f"not {type(given).__name__}"
    )
