"""Anthropic's prompt cache in a few lines, written from its documentation and not from our code."""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["TinyCache"]

_SECONDS = {"5m": 300.0, "1h": 3600.0}
_WRITE = {"5m": 1.25, "1h": 2.0}


class TinyCache:
    """Answers with the tokens that a request computes, reads and writes.

    A token is four bytes of JSON; no prefix below `least` of them is kept.
    """

    def __init__(self, *, least: int = 512) -> None:
        self.least = least
        self.ends: dict[bytes, tuple[float, float]] = {}  # prefix → its end, its lifetime

    def ask(self, payload: dict[str, Any], now: float) -> tuple[int, int, dict[str, int], int]:
        """Tokens computed, read, written by lifetime; and the block up to which it was read."""
        blocks = list(_blocks(payload))
        keys, sizes, size, digest = [], [], 0, b""
        for text, _, _ in blocks:
            digest = hashlib.sha1(digest + text.encode()).digest()
            size += len(text)
            keys.append(digest)
            sizes.append(size // 4)
        marks = [(n, ttl) for n, (_, ttl, _) in enumerate(blocks) if ttl is not None]
        assert len(marks) <= 4, "a 400: too many marks"
        order = [ttl for _, ttl in marks]
        assert order == sorted(order), "a 400: an hour behind five minutes"
        hit = self._hit(blocks, keys, sizes, [n for n, _ in marks], now)
        written = {}
        paid = 0 if hit < 0 else sizes[hit]
        if hit >= 0:
            self._renew(keys[hit], now)
        for number, ttl in marks:
            if sizes[number] < self.least:
                continue
            if sizes[number] > paid:
                written[ttl] = written.get(ttl, 0) + sizes[number] - paid
                paid = sizes[number]
            if now < self.ends.get(keys[number], (0.0, 0.0))[0]:
                self._renew(keys[number], now)
            else:
                self.ends[keys[number]] = (now + _SECONDS[ttl], _SECONDS[ttl])
        read = 0 if hit < 0 else sizes[hit]
        return sizes[-1] - read - sum(written.values()), read, written, hit

    def _hit(self, blocks, keys, sizes, marks, now):  # type: ignore[no-untyped-def]
        found = -1
        for mark in marks:
            positions, before = 0, None
            for number in range(mark, -1, -1):
                run = blocks[number][2]
                positions += run is None or run != before
                before = run
                if positions > 20:
                    break
                is_long = sizes[number] >= self.least
                if is_long and now < self.ends.get(keys[number], (0.0, 0.0))[0]:
                    found = max(found, number)
                    break
        return found

    def _renew(self, key: bytes, now: float) -> None:
        end, lifetime = self.ends[key]
        self.ends[key] = (max(end, now + lifetime), lifetime)


def cost(computed: int, read: int, written: dict[str, int]) -> float:
    """In tokens of input."""
    return computed + 0.1 * read + sum(_WRITE[ttl] * number for ttl, number in written.items())


def _blocks(payload):  # type: ignore[no-untyped-def]
    """Text, lifetime of the mark or `None`, and the kind of run it is in or `None`."""
    for tool in payload.get("tools", ()):
        yield _block("tools", tool)
    for block in _listed(payload.get("system", [])):
        yield _block("system", block)
    for message in payload["messages"]:
        for block in _listed(message["content"]):
            yield _block(message["role"], block)


def _listed(content):  # type: ignore[no-untyped-def]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _block(place, block):  # type: ignore[no-untyped-def]
    plain = {name: value for name, value in block.items() if name != "cache_control"}
    control = block.get("cache_control")
    ttl = None if control is None else control.get("ttl", "5m")
    kind = block.get("type")
    run = kind if kind in ("tool_use", "tool_result") else None
    return place + json.dumps(plain), ttl, run
