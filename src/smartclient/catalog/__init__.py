"""Dated facts about models: prices, limits, cache rules; looked up by any name, laid over by yours.

Nothing here is loaded before it is asked for; `import smartclient` does not load it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .costs import Cost, cost
from .facts import ImageTokens, Mode, ModelFacts, Prices, Rates, Tier
from .lookup import Catalog, builtin, catalog_of

__all__ = [
    "Catalog",
    "Cost",
    "ImageTokens",
    "Mode",
    "ModelFacts",
    "Prices",
    "Rates",
    "Tier",
    "builtin",
    "catalog_of",
    "cost",
    "from_genai_prices",
    "model",
    "override",
    "read",
]


def model(name: str) -> ModelFacts | None:
    """The facts of the model that `name` means, from the catalog that comes with this version.

    `None`, and one warning in the log, where it is not known. See `Catalog.model`.
    """
    return builtin().model(name)


def override(models: Mapping[str, Mapping[str, Any]]) -> Catalog:
    """Our catalog with fields of these models replaced one by one. See `Catalog.override`."""
    return builtin().override(models)


def read(path: str | os.PathLike[str]) -> Catalog:
    """Our catalog with what a JSON file says laid over it. See `Catalog.read`."""
    return builtin().read(path)


def from_genai_prices() -> Catalog:
    """Our catalog with the prices of the package `genai-prices` in place of ours.

    Its prices of today, for the models of Anthropic and OpenAI that it knows, some of which
    we do not. Limits and cache rules stay ours.

    Raises:
        ImportError: The package is not there: install `smartclient[prices]`.
    """
    from .genai import laid_over

    return laid_over(builtin())
