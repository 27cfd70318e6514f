"""Changes of a stream's events that the cases of its faults share."""

from __future__ import annotations

import json

from tests.end_to_end.fault_bytes import data

__all__ = ["DONE", "chat", "inserted"]

DONE = b"data: [DONE]\n\n"


def inserted(at, *new):
    return lambda chunks: [*chunks[:at], *new, *chunks[at:]]


def chat(chunks, **fields):
    """A chunk with the ids of the others."""
    first = json.loads(chunks[0].removeprefix(b"data: "))
    return data({key: first[key] for key in ("id", "object", "created", "model")} | fields)
