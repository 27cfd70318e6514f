"""OpenAI's prompts, and the breakpoints of its newer models.

Source: OpenAI API guide, "Prompt caching"; the docstrings of `prompt_cache_options` and
`prompt_cache_breakpoint` in openai-python 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..request import Received
from .cache_rules import CacheRules, openai_version
from .prompt_walk import Mark, Prompt, PromptWalk, canonical, digest, objects
from .refusals import Refusal, invalid

__all__ = ["OPENAI_TTLS", "CacheOptions", "OpenAIPrompt", "owner_of", "read_openai"]

OPENAI_TTLS: Mapping[str, float] = {"30m": 1800.0, "12h": 43200.0}
_MAX_WRITES = 4
_MAX_LOOKED_UP = 80
_MARKABLE = frozenset("text image_url file input_audio input_text input_image input_file".split())


class CacheOptions(NamedTuple):
    """A request's `prompt_cache_options`, with their defaults."""

    mode: str = "implicit"
    ttl: str = "30m"
    is_prewarm: bool = False
    comparison_id: str | None = None


class OpenAIPrompt(NamedTuple):
    """A request's prompt, and where it may be cut.

    Attributes:
        prompt: Its marks are those that are written.
        looked_up: Blocks whose prefixes are looked up, in their order.
        options: `None` for models without breakpoints.
    """

    prompt: Prompt
    looked_up: list[int]
    options: CacheOptions | None


@dataclass(frozen=True, slots=True)
class _Item:
    """A message, or another item of the conversation.

    Attributes:
        rest: What it holds besides its parts.
    """

    role: str
    path: str
    parts: list[dict[str, Any]]
    rest: dict[str, Any]


class _BrokenRuleError(Exception):
    def __init__(self, path: str, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.refusal = invalid("openai", message, param=path, code=code)


def read_openai(received: Received, caller: str, rules: CacheRules) -> OpenAIPrompt | Refusal:
    """The prompt of a Chat or Responses request, or the 400 that its caching deserves."""
    has_breakpoints = rules.has_breakpoints(received.model or "")
    items = list(_items(received))
    try:
        _check_retention(received)
        options = _options(received, has_breakpoints)
        marked = _explicit(items, options.ttl, has_breakpoints)
    except _BrokenRuleError as error:
        return error.refusal
    walk = _walk(received, caller, rules, has_breakpoints)
    ends: list[int] = []
    explicit: dict[int, str] = {}
    for number, item in enumerate(items):
        for place, part in enumerate(item.parts):
            index = walk.add(item.role, _unmarked(part))
            if (number, place) in marked:
                explicit[index] = marked[number, place]
        if item.rest or not item.parts:
            index = walk.add(f"{item.role} rest", item.rest)
        ends.append(index)
    prompt = Prompt(walk.blocks, [], _compared(received, items))
    if not has_breakpoints:
        return OpenAIPrompt(prompt, [], None)
    implicit = _implicit(items, ends) if options.mode == "implicit" else []
    marks = _written(explicit, implicit[-1] if implicit else None, options.ttl)
    looked_up = sorted({*explicit, *implicit})[-_MAX_LOOKED_UP:]
    return OpenAIPrompt(Prompt(walk.blocks, marks, prompt.parts), looked_up, options)


def _walk(received: Received, caller: str, rules: CacheRules, has_breakpoints: bool) -> PromptWalk:
    """The walk up to the conversation: who asks, what the model is shown before it."""
    body = received.fields
    walk = PromptWalk(rules, "openai", caller, owner_of(received), received.model or "")
    shown = _settings(body)
    before = {"previous_response_id": body.get("previous_response_id")}
    if has_breakpoints:
        walk.show(body.get("prompt_cache_key"), shown, before)
    else:
        # Steps are cut from the text, so what is shown has to stand in it.
        for one in (before, {"schema": shown["text_format_changed"]}):
            if any(one.values()):
                walk.add("shown", one)
    for tool in objects(body.get("tools")):
        walk.add("tools", tool)
    return walk


def owner_of(received: Received) -> str:
    """Whose prompts the request may read: a key may act for several."""
    names = ("openai-organization", "openai-project")
    return canonical([received.header(name) for name in names])


def _settings(body: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that are a part of every prefix, by the reason that their change gives."""
    text, reasoning = (
        value if isinstance(value, dict) else {} for value in map(body.get, ("text", "reasoning"))
    )
    return {
        "service_tier_changed": body.get("service_tier") or "auto",
        "text_format_changed": text.get("format") or body.get("response_format"),
        "reasoning_effort_changed": reasoning.get("effort") or body.get("reasoning_effort"),
        "verbosity_changed": text.get("verbosity") or body.get("verbosity"),
        "unavailable": [body.get("parallel_tool_calls"), body.get("context_management")],
    }


def _compared(received: Received, items: list[_Item]) -> dict[str, bytes]:
    """What a diagnosis tells apart besides the input, the first reason first."""
    body = received.fields
    values = {
        "model_changed": received.model,
        "prompt_cache_key_changed": body.get("prompt_cache_key"),
        "tools_changed": objects(body.get("tools")),
        **_settings(body),
        "context_compacted": [one.rest for one in items if one.rest.get("type") == "compaction"],
    }
    return {reason: digest(canonical(value)) for reason, value in values.items()}


def _items(received: Received) -> Iterator[_Item]:
    instructions = received.fields.get("instructions")
    if received.api == "openai.responses" and isinstance(instructions, str) and instructions:
        yield _Item("developer", "instructions", _lifted(instructions, "input_text"), {})
    is_responses = received.api == "openai.responses"
    name, said = ("input", "input_text") if is_responses else ("messages", "text")
    for number, turn in enumerate(received.turns):
        path = f"{name}[{number}]"
        kind = str(turn.get("type", "message"))
        if "role" in turn:
            skipped = ("role", "content", "type", "id", "status")
            rest = {key: value for key, value in turn.items() if key not in skipped}
            by_model = is_responses and turn["role"] == "assistant"
            parts = _lifted(turn.get("content"), "output_text" if by_model else said)
            yield _Item(str(turn["role"]), path, parts, rest)
        elif kind.endswith("_call_output"):
            rest = {key: turn[key] for key in ("type", "call_id") if key in turn}
            yield _Item("tool", path, _lifted(turn.get("output"), said), rest)
        else:
            yield _Item("assistant", path, [], dict(turn))


def _lifted(content: Any, kind: str) -> list[dict[str, Any]]:
    """Content as parts: a string is short for one of text, which the APIs name differently."""
    if isinstance(content, str):
        return [{"type": kind, "text": content}]
    return list(objects(content))


def _unmarked(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "prompt_cache_breakpoint"}


def _implicit(items: list[_Item], ends: list[int]) -> list[int]:
    """Where the API marks by itself; of these the last one is written.

    The end of the developer messages at the beginning, of every user message, and of every
    group of tool replies.
    """
    found = []
    for number, (item, end) in enumerate(zip(items, ends, strict=True)):
        after = items[number + 1].role if number + 1 < len(items) else ""
        is_head = all(one.role in ("system", "developer") for one in items[: number + 1])
        ends_head = is_head and after not in ("system", "developer")
        ends_tools = item.role == "tool" and after != "tool"
        if item.role == "user" or ends_head or ends_tools:
            found.append(end)
    return found


def _written(explicit: Mapping[int, str], implicit: int | None, ttl: str) -> list[Mark]:
    """The implicit mark and the latest explicit ones, four in all."""
    marks = sorted(explicit.items())
    if implicit is None:
        return [Mark(*one) for one in marks[-_MAX_WRITES:]]
    others = [one for one in marks if one[0] != implicit][-(_MAX_WRITES - 1) :]
    return [Mark(*one) for one in sorted([*others, (implicit, explicit.get(implicit, ttl))])]


def _explicit(items: list[_Item], ttl: str, has_breakpoints: bool) -> dict[tuple[int, int], str]:
    """Number of an item, number of its part → time to live of its breakpoint."""
    found = {}
    for number, item in enumerate(items):
        for place, part in enumerate(item.parts):
            mark = part.get("prompt_cache_breakpoint")
            if mark is None:
                continue
            path = f"{item.path}.content[{place}].prompt_cache_breakpoint"
            if not has_breakpoints:
                raise _unsupported(path)
            if str(part.get("type")) not in _MARKABLE or item.role == "assistant":
                raise _BrokenRuleError(path, f"{path} cannot stand on a part of this type")
            if not isinstance(mark, dict) or mark.get("mode") != "explicit":
                raise _BrokenRuleError(path, f'{path}.mode must be "explicit"')
            found[number, place] = _choice(mark, path, "ttl", tuple(OPENAI_TTLS), ttl)
    return found


def _options(received: Received, has_breakpoints: bool) -> CacheOptions:
    path = "prompt_cache_options"
    given = received.fields.get(path)
    if given is None:
        return CacheOptions()
    if not has_breakpoints:
        raise _unsupported(path)
    if not isinstance(given, dict):
        raise _BrokenRuleError(path, f"{path} must be an object")
    is_chat = received.api == "openai.chat"
    for name in ("prewarm", "comparison_response_id"):
        if is_chat and name in given:
            message = f"{path}.{name} is known to the Responses API only"
            raise _BrokenRuleError(f"{path}.{name}", message, code="unknown_parameter")
    comparison = given.get("comparison_response_id")
    return CacheOptions(
        mode=_choice(given, path, "mode", ("implicit", "explicit"), "implicit"),
        ttl=_choice(given, path, "ttl", ("30m",) if is_chat else tuple(OPENAI_TTLS), "30m"),
        is_prewarm=given.get("prewarm") is True,
        comparison_id=comparison if isinstance(comparison, str) else None,
    )


def _choice(
    given: Mapping[str, Any], path: str, name: str, known: tuple[str, ...], default: str
) -> str:
    value = given.get(name)
    if value is None:
        return default
    if value not in known:
        options = " or ".join(f'"{one}"' for one in known)
        raise _BrokenRuleError(
            f"{path}.{name}", f"{path}.{name} must be {options}", code="invalid_value"
        )
    return str(value)


def _unsupported(path: str) -> _BrokenRuleError:
    message = f"{path} is not supported with this model: breakpoints came with gpt-5.6"
    return _BrokenRuleError(path, message, code="unsupported_parameter")


def _check_retention(received: Received) -> None:
    path = "prompt_cache_retention"
    version = openai_version(received.model or "")
    only_a_day = version is not None and version >= (5, 5)
    known = ("24h",) if only_a_day else ("in_memory", "24h")
    value = received.fields.get(path)
    if value is not None and value not in known:
        options = " or ".join(f'"{one}"' for one in known)
        message = f"{path} must be {options} with this model"
        raise _BrokenRuleError(path, message, code="invalid_value")
