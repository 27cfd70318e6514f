"""JSON schemas that descriptions of several endpoints are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from .fields import Bounds, Neutral, TextBlocks

__all__ = [
    "FLAG",
    "MAYBE_TEXT",
    "NULL",
    "TEXT",
    "Schema",
    "content",
    "no_more_than",
    "number",
    "object_of",
    "or_null",
    "passing",
    "text_block",
]

Schema: TypeAlias = Mapping[str, object]

TEXT: Schema = {"type": "string"}
MAYBE_TEXT: Schema = {"type": ["string", "null"]}
FLAG: Schema = {"type": ["boolean", "null"]}
NULL: Schema = {"type": "null"}


def object_of(
    fields: Mapping[str, Schema], *, required: Sequence[str] = (), closed: bool = False
) -> dict[str, object]:
    """The schema of an object; `closed`: with no other fields."""
    schema: dict[str, object] = {"type": "object", "properties": fields}
    if required:
        schema["required"] = list(required)
    return schema | {"additionalProperties": False} if closed else schema


def or_null(schema: Schema) -> Schema:
    """`schema`, or nothing."""
    return {"anyOf": [schema, NULL]}


def number(kind: str | list[str], bounds: Bounds) -> Schema:
    """A number of `kind` within `bounds`."""
    schema: dict[str, object] = {"type": kind, "minimum": bounds.minimum}
    return schema if bounds.maximum is None else schema | {"maximum": bounds.maximum}


def no_more_than(most: int, items: Schema, *, least: int = 0) -> Schema:
    """An array."""
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def passing(ignored: Iterable[str], neutral: Neutral) -> dict[str, Schema]:
    """Fields without effect: anything goes, or only what changes nothing."""
    return {
        **{name: {} for name in ignored},
        **{name: {"enum": [*values, None]} for name, values in neutral.items()},
    }


def text_block(text: TextBlocks, *, least: int = 0) -> Schema:
    """A block of text with `least` characters."""
    words: Schema = {"type": "string", "minLength": least} if least else TEXT
    return object_of(
        {**passing(text.ignored, text.neutral), "type": {"const": text.type}, "text": words},
        required=["type", "text"],
        closed=True,
    )


def content(text: TextBlocks, *others: Schema, least: int = 0) -> list[Schema]:
    """A string or blocks, of text or of `others`, with `least` characters and blocks."""
    words: Schema = {"type": "string", "minLength": least} if least else TEXT
    block = text_block(text, least=least)
    items = {"anyOf": [block, *others]} if others else block
    return [words, {"type": "array", "items": items, "minItems": least}]
