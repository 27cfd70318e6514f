"""When an answer's bytes leave, and in which writes: events in, waits and writes out.

Source: the places where parsers of event streams break, such as openai-python#1819 (split
characters) and aiohttp or httpx reads that end inside a CRLF.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from random import Random

from .answers import Answer, Split
from .compile_parts import Event
from .ops import Body, Op, Script, Wait

__all__ = ["cuts", "duration", "resplit", "unsplit", "writes"]

_LINE_END = re.compile(rb"\r?\n")
_MANY_BYTES = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")


def duration(answer: Answer, events: Sequence[Event], random: Random) -> float:
    """Seconds that a whole reply takes: its first token, and the gaps between all tokens."""
    gaps = max(0, sum(event.has_tokens for event in events) - 1)
    return answer.ttft + sum(_gap(answer, random) for _ in range(gaps))


def writes(answer: Answer, events: Sequence[Event], random: Random) -> list[Op]:
    """Body writes of a stream, with the waits between them."""
    datas = [event.data for event in events]
    if answer.split == "crlf":
        datas = [_LINE_END.sub(b"\r\n", data) for data in datas]
    ends = list(accumulate(map(len, datas)))
    before = _waits(answer, events, random)
    body = b"".join(datas)
    places = set(cuts(body, answer.split)) | {end for end in ends if end < len(body)}
    if answer.split not in (None, "event") and not answer.itl:
        places -= set(ends) - set(cuts(body, answer.split))
    waits = {end: wait for end, wait in zip(ends[:-1], before[1:], strict=True) if wait}
    ops: list[Op] = []
    for start, end in zip([0, *sorted(places)], [*sorted(places), len(body)], strict=True):
        wait = waits.get(start, answer.gap if start and answer.split is not None else 0.0)
        if wait:
            ops.append(Wait(wait))
        ops.append(Body(body[start:end]))
    return ops


def unsplit(answer: Answer) -> Answer:
    """The same with a write per event, for a fault to break; `resplit` splits what is left."""
    if answer.split in (None, "event"):
        return answer
    return replace(answer, split="crlf" if answer.split == "crlf" else "event", gap=0.0)


def resplit(answer: Answer, script: Script) -> Script:
    """A script that a fault has made of an `unsplit` answer, its body split as that asks."""
    if answer.split in (None, "event"):
        return script
    places = cuts(b"".join(op.data for op in script if isinstance(op, Body)), answer.split)
    ops: list[Op] = []
    begin = 0
    for is_body, group in groupby(script, lambda op: isinstance(op, Body)):
        if not is_body:
            ops += group
            continue
        body = b"".join(op.data for op in group if isinstance(op, Body))
        inside = [at - begin for at in places if begin < at < begin + len(body)]
        begin += len(body)
        for start, end in zip([0, *inside], [*inside, len(body)], strict=True):
            if start and answer.gap:
                ops.append(Wait(answer.gap))
            ops.append(Body(body[start:end]))
    return ops


def cuts(body: bytes, split: Split) -> list[int]:
    """Offsets inside `body` at which a write ends, besides the ends of events."""
    if isinstance(split, str):
        found = _named_cuts(body, split)
    elif isinstance(split, int):
        found = range(split, len(body), split)
    else:
        found = split or ()
    return [at for at in found if 0 < at < len(body)]


def _named_cuts(body: bytes, split: str) -> Sequence[int]:
    match split:
        case "byte":
            return range(1, len(body))
        case "character":
            return [match.start() + 1 for match in _MANY_BYTES.finditer(body)]
        case "crlf":
            return [match.start() + 1 for match in re.finditer(rb"\r\n", body)]
        case _:
            return ()


def _waits(answer: Answer, events: Sequence[Event], random: Random) -> list[float]:
    """Seconds before each event: tokens are `itl` apart, the rest follows at once."""
    waits = []
    has_begun = False
    for event in events:
        waits.append(_gap(answer, random) if event.has_tokens and has_begun else 0.0)
        has_begun = has_begun or event.has_tokens
    return waits


def _gap(answer: Answer, random: Random) -> float:
    if not answer.jitter:
        return answer.itl
    return answer.itl * random.uniform(1 - answer.jitter, 1 + answer.jitter)
