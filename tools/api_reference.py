"""Write `docs/reference/api.md` from the docstrings of what both packages export."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_origin

__all__ = ["PACKAGES", "PAGE", "main", "render"]

PACKAGES = (
    "smartclient",
    "smartclient.budgets",
    "smartclient.catalog",
    "smartclient.ledger",
    "smartclient.prompt_cache",
    "smartclient.stores",
    "smartclient.testing",
    "smartclient.tokens",
    "server_reference",
    "server_reference.scripted",
    "server_reference.scripted.ops",
    "server_reference.scripted.providers",
)
BEHIND = (  # what the values of exported names are made of
    ("smartclient._resources", ("Messages", "ChatCompletions", "Responses", "InputTokens")),
    ("smartclient._stream", ("Stream",)),
    (
        "smartclient._answer_stream",
        ("AnswerStream", "MessageStream", "ChatCompletionStream", "ResponseStream"),
    ),
    ("server_reference.gateway.server", ("Server",)),
)
PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "api.md"

_HEAD = """# API

Written from the docstrings by `scripts/docs`; change it there.
[Settings](settings.md) and [errors](errors.md) have pages of their own.
"""

_SECTION = re.compile(r"(Args|Attributes|Returns|Raises[^:]*|Cost|Source):")
_ENTRY = re.compile(r"\*{0,2}(\w+): (.*)")


def render() -> str:
    """The whole page."""
    parts = [_HEAD]
    for package in PACKAGES:
        module = importlib.import_module(package)
        parts.append(f"\n## {package}\n")
        for name in sorted(module.__all__, key=str.lower):
            value = getattr(module, name)
            if get_origin(value) is None:  # a name for a type needs no entry
                parts += _of_name(f"{package}.{name}", value)
    parts.append("\n## What these return\n")
    for path, names in BEHIND:
        module = importlib.import_module(path)
        for name in names:
            parts += _of_name(name, getattr(module, name), is_made=True)
    return re.sub(r"\n{3,}", "\n\n", "".join(parts))


def _of_name(path: str, value: Any, *, is_made: bool = False) -> Iterator[str]:
    yield f"\n### {path}\n"
    if not callable(value):
        shown = f"names: {', '.join(value)}" if isinstance(value, Mapping | tuple) else repr(value)
        yield f"\n`{shown}`\n"
        return
    is_error = isinstance(value, type) and issubclass(value, Exception)
    is_made = is_made or getattr(value, "_is_protocol", False)  # by somebody else
    if not is_error and not is_made:
        yield _signature(path.rpartition(".")[2], value)
    yield from _docstring(value)
    if isinstance(value, type) and not is_error:
        for name, member in _members(value):
            yield f"\n**`.{name}`**\n"
            if callable(member):
                yield _signature(name, member)
            yield from _docstring(member)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that `cls` itself has and describes."""
    for name, member in vars(cls).items():
        if name.startswith("_"):
            continue
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        is_shown = inspect.isfunction(function) or isinstance(member, property)
        if is_shown and inspect.getdoc(member):
            yield name, function


def _signature(name: str, value: Any) -> str:
    signature = inspect.signature(value)
    parameters = [
        one.replace(annotation=_Plain(one.annotation)) if isinstance(one.annotation, str) else one
        for one in signature.parameters.values()
        if one.name not in ("self", "cls")
    ]
    returned = signature.return_annotation
    if isinstance(returned, str):
        returned = signature.empty if returned == "None" else _Plain(returned)
    text = str(signature.replace(parameters=parameters, return_annotation=returned))
    text = re.sub(r"<[\w.]*?(\w+) object at 0x\w+>", r"\1()", text)
    text = re.sub(r"<function (\w+) at 0x\w+>", r"\1", text).replace("<factory>", "...")
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)  # types without their modules
    return f"\n```text\n{name}{_broken(text)}\n```\n"


class _Plain:
    """An annotation that prints as it was written, without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _broken(signature: str) -> str:
    """One argument per line where one line would be too long."""
    if len(signature) <= 80:
        return signature
    arguments, depth, start = [], 0, 1
    for at, letter in enumerate(signature):
        depth += (letter in "([{") - (letter in ")]}")
        if (letter == "," and depth == 1) or depth == 0:
            arguments.append(signature[start:at].strip())
            start = at + 1
        if depth == 0:
            return "(\n    " + ",\n    ".join(arguments) + ",\n)" + signature[at + 1 :]
    return signature


def _docstring(value: Any) -> Iterator[str]:
    """Markdown of a docstring: its prose, and its sections as lists."""
    lines = (inspect.getdoc(value) or "").splitlines()
    in_section = False
    for line in lines:
        if section := _SECTION.fullmatch(line):
            in_section = True
            yield f"\n{section[1]}:\n\n" if section[1] != "Source" else "\nSource: "
        elif not line.strip():
            in_section = False
            yield "\n"
        elif in_section and (entry := _ENTRY.match(line.removeprefix("    "))):
            yield f"- `{entry[1]}`: {entry[2]}\n"
        elif in_section:
            yield f"  {line.strip()}\n"
        else:
            yield ("\n" if line == lines[0] else "") + f"{line}\n"


def main() -> int:
    """Write the page; return the exit code."""
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
