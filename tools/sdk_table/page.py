"""The page with the table, and its lines read back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from server_reference.scripted.faults.presets import KINDS
from server_reference.scripted.faults.registry import PRESETS

from .cases import STEPS
from .judge import MARKS
from .rows import CASES, CLIENTS, Row, usual

__all__ = ["PAGE", "committed", "line", "render", "versions"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "faults-and-clients.md"
_PACKAGES = ("openai", "anthropic", "httpx2")

_HEAD = """# Faults and clients

What the official SDKs and our own client do under every fault that the scripted server plays.

Written from real runs by `python -m tools.sdk_table`, in a minute or two.
Each client makes the calls that its documentation shows, against a server on loopback that \
plays one fault; what is told here was counted at the server, or seen by the caller.
`python -m tools.sdk_table reset_after cut_after` runs these two and prints their rows.
What a fault does, its parameters and where it was seen stand on the page of \
[faults](faults.md); [how to break a reply](../how-to/break-replies.md) plays them to your own \
code.
"""

_READING = """## How to read it

*Right* is what a client should do.
*Run* is what differs from one streamed call with the fault's and the client's defaults: the \
fault's parameters, other steps, the client's settings.
"Then answered" is a fault that passes: the next try is answered.

{marks}

An error is right where it is of the client's own family, so that one `except` catches it; \
whether it carries the part that had come is told, and not judged.
A text in quotes is what came, and what should have come.
*Verdict* is what the server's [verdict](verdicts.md) names beyond what it names of this client \
with nothing broken, which is:

{usual}

Steps: {steps}.
"""


def versions() -> dict[str, str]:
    """What the rows were run with."""
    return {package: version(package) for package in _PACKAGES}


def line(row: Row) -> str:
    """A row of its table."""
    cells = [str(cell) for cell in row.cells]
    told = [CASES[row.name].how(), PRESETS[row.name].right, *cells]
    return f"| [{row.name}](faults.md#{row.name}) | {' | '.join(map(_escaped, told))} |"


def render(rows: Sequence[Row]) -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_versions(), *_summary(rows), _reading(), *_tables(rows)]) + "\n"


def committed(page: str) -> dict[str, str]:
    """The lines of a page by name of their preset."""
    return {found[1]: found[0] for found in re.finditer(r"^\| \[(\w+)\].*\|$", page, re.MULTILINE)}


def _versions() -> Iterator[str]:
    told = [f"{package} {number}" for package, number in versions().items()]
    yield f"Run with {', '.join(told)}, and the smartclient of this repository.\n"


def _summary(rows: Sequence[Row]) -> Iterator[str]:
    yield f"| kind | presets | {' | '.join(f'{name}: ✓ / ✗' for name in CLIENTS)} | not yet |"
    yield f"| --- | --- | {'--- | ' * len(CLIENTS)}--- |"
    kinds = [kind for kind in KINDS if any(PRESETS[row.name].kind == kind for row in rows)]
    for kind in kinds:
        yield _counts(kind, [row for row in rows if PRESETS[row.name].kind == kind])
    yield _counts("all", rows) + "\n"


def _counts(kind: str, rows: Sequence[Row]) -> str:
    marks = [Counter(row.cells[n].mark for row in rows) for n in range(len(CLIENTS))]
    told = [f"{count['✓']} / {count['✗']}" for count in marks]
    return f"| {kind} | {len(rows)} | {' | '.join(told)} | {marks[-1]['not yet']} |"


def _reading() -> str:
    marks = "\n".join(f"- {mark}: {meaning}." for mark, meaning in MARKS.items())
    steps = "; ".join(f"*{word}* is {meaning}" for word, meaning in STEPS.items())
    return _READING.format(marks=marks, usual="\n".join(_usual()), steps=steps)


def _usual() -> Iterator[str]:
    apis: Mapping[str, tuple[str, ...]] = {
        "openai": ("openai.chat",),
        "anthropic": ("anthropic.messages",),
        "smartclient": ("openai.chat", "anthropic.messages"),
    }
    for client in CLIENTS:
        for api in apis[client]:
            found = usual(client, api, stream=True, helper=False)
            yield f"- {client} in {api}: {', '.join(f'`{n}`' for n in sorted(found)) or 'nothing'}."


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    for kind, meaning in KINDS.items():
        ours = [row for row in rows if PRESETS[row.name].kind == kind]
        if ours:
            yield f"## {kind}: {meaning}\n"
            yield f"| fault | run | right | {' | '.join(CLIENTS)} |"
            yield f"| --- | --- | --- | {'--- | ' * len(CLIENTS)}".rstrip()
            yield from map(line, ours)
            yield ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
