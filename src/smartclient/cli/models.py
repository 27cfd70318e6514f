"""Which models a command is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from ..catalog import Catalog, ModelFacts
from ..tokens.counting import SHARED
from ..tokens.encodings import tokenizing

__all__ = ["FAMILIES", "UnknownModelError", "chosen", "known", "without_vocabulary"]

FAMILIES = ("gpt-5.6-sol", "gpt-6.1-sol", "claude-sonnet-4-6", "claude-sonnet-5-5")
"""A model for each way in which text is cut into tokens, where none is named."""


class UnknownModelError(Exception):
    """A name that no model has; one sentence with the nearest that some have."""


def known(name: str, catalog: Catalog) -> ModelFacts:
    """The facts of the model that somebody asks for.

    Raises:
        UnknownModelError: The catalog does not know it.
    """
    facts = catalog.model(name) if name in catalog else None
    if facts is None:
        near = catalog.near(name)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise UnknownModelError(
            f"there is no model {name!r} in the catalog; {meant}--catalog FILE adds your own"
        )
    return facts


def without_vocabulary(models: Iterable[str]) -> Iterator[str]:
    """A sentence, where some of `models` could be counted exactly and none is at hand."""
    encodings = {rule.encoding for rule in map(tokenizing, models) if rule.is_own}
    if any(SHARED.vocabularies.get(encoding) is None for encoding in encodings):
        yield "No vocabulary is at hand, so that OpenAI's models are estimated too:"
        yield "pip install 'smartclient[tokens]' brings them."


def chosen(patterns: Sequence[str], providers: Sequence[str], catalog: Catalog) -> list[ModelFacts]:
    """The models that a command is to compare, in the order of the catalog.

    Args:
        patterns: Names, or patterns such as `claude-*`; none are all.
        providers: Makers; none are all.

    Raises:
        UnknownModelError: A name or a pattern that no model has, or a maker without any.
    """
    makers = sorted({facts.provider for facts in catalog if facts.provider})
    for provider in providers:
        if provider not in makers:
            raise UnknownModelError(
                f"there is no provider {provider!r} in the catalog; known are {', '.join(makers)}"
            )
    ours = [facts for facts in catalog if not providers or facts.provider in providers]
    if not patterns:
        return ours
    found: list[ModelFacts] = []
    for pattern in patterns:
        if any(sign in pattern for sign in "*?["):
            some = [facts for facts in ours if fnmatchcase(facts.name, pattern.lower())]
            if not some:
                raise UnknownModelError(f"no model of the catalog is called like {pattern!r}")
        else:
            some = [known(pattern, catalog)]
        found += [facts for facts in some if facts not in found]  # a fine-tuned one has its own
    return found
