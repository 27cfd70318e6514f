"""Turn a conversation into the prompt that a model was trained on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import jinja2
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .tokenizer import Tokenizer

__all__ = ["CHATML", "ChatTemplate", "ChatTemplateError", "Messages"]

CHATML = """\
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""The template of `tiny`."""

Messages: TypeAlias = Sequence[Mapping[str, Any]]
"""A conversation: `role`, `content` and whatever else a template reads."""

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
        takes_tools: Whether it has a place for tools.

    Raises:
        ChatTemplateError: The template has a syntax error.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        # Whitespace rules, loop controls and functions are those that model files assume.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise ChatTemplateError(f"the model's chat template is broken: {error}") from error
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self.takes_tools = "tools" in find_undeclared_variables(environment.parse(source))

    def render(self, messages: Messages, tools: Messages | None = None) -> str:
        """The prompt as text, up to the start of the assistant's turn.

        A user's text stands in it as it came: `encode` is what keeps it from steering.

        Raises:
            ChatTemplateError: The template refuses these messages.
        """
        try:
            return self._template.render(
                messages=messages, tools=tools, add_generation_prompt=True, **self._tokens
            )
        except (jinja2.TemplateError, TypeError, LookupError, ArithmeticError) as error:
            raise ChatTemplateError(f"the model's chat template refuses: {error}") from error

    def encode(
        self, tokenizer: Tokenizer, messages: Messages, *, tools: Messages | None = None
    ) -> list[int]:
        """The prompt as token ids, in which only the template's own text makes control tokens.

        Whatever in a message looks like a control token is marked before the template runs,
        so it is not found as one afterwards; the marks are gone before text becomes tokens.

        Raises:
            ChatTemplateError: As `render` does.
        """
        control = tokenizer.control_tokens
        mark = _unused_mark([*messages, *(tools or ())])
        guarded, shown = (
            _each_text(value, lambda text: control.guard(text, mark)) for value in (messages, tools)
        )
        text = self.render(guarded, shown)
        ids: list[int] = []
        for piece in control.split(text):
            ids += [piece] if isinstance(piece, int) else tokenizer.encode(piece.replace(mark, ""))
        start = tokenizer.bos_token_id
        return ids if start is None or ids[:1] == [start] else [start, *ids]


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with every text in it changed, keys apart."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each_text(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each_text(item, change) for item in value]
    return value


def _unused_mark(messages: Messages) -> str:
    """A character that stands nowhere in the messages.

    Raises:
        ChatTemplateError: They hold all that there are to choose from.
    """
    used: set[str] = set()

    def look(text: str) -> str:
        used.update(text)
        return text

    _each_text(messages, look)
    for mark in map(chr, _MARKS):
        if mark not in used:
            return mark
    raise ChatTemplateError(
        f"the messages hold all {len(_MARKS):,} characters of the last private use area; "
        "leave one of them out"
    )


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
