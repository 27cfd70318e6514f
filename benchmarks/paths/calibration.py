"""A path through plain Python, to tell one build of the interpreter from another.

Builds of one minor version differ in instructions for the same work; counts are compared
in proportion to this path's, which never changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator

__all__ = ["plain_python"]


class _Counter:
    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def add(self, name: str) -> int:
        self.seen[name] = self.seen.get(name, 0) + 1
        return self.seen[name]


def _flow(steps: int) -> Generator[int, int, int]:
    total = 0
    for number in range(steps):
        total += yield number
    return total


def _driven(flow: Generator[int, int, int]) -> int:
    try:
        asked = next(flow)
        while True:
            asked = flow.send(asked + 1)
    except StopIteration as stop:
        return int(stop.value)


def plain_python() -> Callable[[], object]:
    """Methods, dicts, strings, bytes, generators and exceptions, in even parts."""
    lines = [f"name-{number}: value-{number}" for number in range(20)]
    body = json.dumps({line: len(line) for line in lines}).encode()

    def step() -> int:
        counter = _Counter()
        for line in lines:
            name, _, value = line.partition(": ")
            counter.add(name.lower())
            counter.add(f"{value}!")
        joined = b"\n".join(line.encode() for line in lines)
        parts = [part.decode() for part in joined.split(b"\n") if part.startswith(b"name")]
        return _driven(_flow(20)) + len(counter.seen) + len(parts) + len(json.loads(body))

    assert step() == 210 + 40 + 20 + 20
    return step
