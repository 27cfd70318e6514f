"""Turn a conversation into the prompt that a model was trained on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, TypeAlias

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .tokenizer import Tokenizer

__all__ = ["CHATML", "ChatTemplate", "ChatTemplateError", "Messages", "Tools"]

CHATML = """\
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""The template of `tiny`."""

Messages: TypeAlias = Sequence[Mapping[str, Any]]
"""A conversation: `role`, `content` and whatever else a template reads."""

Tools: TypeAlias = Sequence[Mapping[str, Any]]
"""Descriptions of functions, in the form that templates assume: OpenAI's."""

# The supplementary private use area: marks that no one's text is likely to hold.
_MARKS = range(0x100000, 0x10FFFE)


class ChatTemplateError(ValueError):
    """A conversation that the model's template refuses, or a template that is broken."""


class ChatTemplate:
    """A model's own Jinja template, run in a sandbox.

    Args:
        source: The template, as model files carry it.
        bos_token: What `bos_token` stands for in it.
        eos_token: Likewise.

    Attributes:
        takes_tools: Whether it has a place for descriptions of tools.

    Raises:
        ChatTemplateError: The template has a syntax error.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        # Whitespace rules, loop controls and functions are those that model files assume.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = _now
        try:
            read = meta.find_undeclared_variables(environment.parse(source))
            self._template = environment.from_string(source)
        except Exception as error:  # a template becomes Python, whose compiler has limits too
            raise ChatTemplateError(f"the model's chat template is broken: {error}") from error
        self.takes_tools = "tools" in read
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}

    def render(self, messages: Messages, *, tools: Tools | None = None) -> str:
        """The prompt as text, up to the start of the assistant's turn.

        A user's text stands in it as it came: `encode` is what keeps it from steering.

        Args:
            tools: Left out in silence where the template does not take them.

        Raises:
            ChatTemplateError: The template refuses these messages.
        """
        given: dict[str, Any] = {"messages": messages, "tools": tools or None, "documents": None}
        try:
            return self._template.render(given, add_generation_prompt=True, **self._tokens)
        except Exception as error:  # a template is a program, which may fail as any may
            why = "it is nested too deep" if isinstance(error, RecursionError) else error
            raise ChatTemplateError(f"the model's chat template refuses: {why!s}") from error

    def encode(
        self, tokenizer: Tokenizer, messages: Messages, *, tools: Tools | None = None
    ) -> list[int]:
        """The prompt as token ids, in which only the template's own text makes control tokens.

        Whatever in a message or tool looks like a control token is marked before the template
        runs, so it is not found as one afterwards; the marks are gone before text becomes tokens.

        Raises:
            ChatTemplateError: As `render` does.
        """
        control = tokenizer.control_tokens
        given = (messages, tools or ())
        mark = _unused_mark(given)
        guarded, tools = _each_text(given, lambda text: control.guard(text, mark))
        ids: list[int] = []
        for piece in control.split(self.render(guarded, tools=tools)):
            if isinstance(piece, int):
                ids.append(piece)
            else:
                ids += tokenizer.encode(piece.replace(mark, ""), follows=bool(ids))
        start = tokenizer.bos_token_id
        return ids if start is None or ids[:1] == [start] else [start, *ids]


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with every text in it changed: a tool's schema is the caller's, keys and all."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {_each_text(key, change): _each_text(its, change) for key, its in value.items()}
    if isinstance(value, list | tuple):
        return [_each_text(item, change) for item in value]
    return value


def _unused_mark(given: Any) -> str:
    """A character that stands nowhere in what is given.

    Raises:
        ChatTemplateError: They hold all that there are to choose from.
    """
    used: set[str] = set()

    def look(text: str) -> str:
        used.update(text)
        return text

    _each_text(given, look)
    for mark in map(chr, _MARKS):
        if mark not in used:
            return mark
    raise ChatTemplateError(
        f"the messages hold all {len(_MARKS):,} characters of the last private use area; "
        "leave one of them out"
    )


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As model files assume it: unlike Jinja's own, it escapes nothing for HTML."""
    text = json.dumps(
        value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys
    )
    if not ensure_ascii:
        return text
    kept = (letter.isascii() or ord(letter) in _MARKS for letter in text)
    return "".join(
        letter if keep else json.dumps(letter)[1:-1]
        for letter, keep in zip(text, kept, strict=True)
    )


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


class _Generation(Extension):
    """`{% generation %}`, which marks an assistant's turn for those who train on it."""

    tags = {"generation"}  # noqa: RUF012  # as Jinja declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
