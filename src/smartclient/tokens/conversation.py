"""A conversation in any of the three formats, in groups that only stay or go as a whole.

A group is a turn of the user, or a step of the model with the results of the tools it called:
a call without its result, or a result without its call, is a 400 at every provider. Reasoning
belongs to the step that follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from .counting import Endpoint, endpoint_of
from .encodings import bare_name
from .tally import listed, plain

__all__ = ["Conversation", "Group", "grouped", "read"]

_Kind = Literal["fixed", "asked", "model", "result", "note"]
_Field = Literal["messages", "input"]


class Conversation(Struct, frozen=True, kw_only=True):
    """What is to be fitted.

    Attributes:
        endpoint: Its format.
        field: Where a request of this format has its messages.
        body: The request without them: tools, system prompt, whatever else counts.
        before: The system prompt as a message, where it was given beside the messages.
        messages: As they were given.
        request: The whole request; `None` where only messages were given.
    """

    endpoint: Endpoint
    field: _Field
    body: Mapping[str, Any]
    before: list[Any]
    messages: Sequence[Any]
    request: Mapping[str, Any] | None


class Group(Struct):
    """Messages that stand or fall together.

    Attributes:
        members: Their places in the conversation.
        is_turn: It begins with the user, so that a conversation may begin with it.
        asks: It holds words of the user.
        is_sent: A request ends with it; not with an answer that waits for the user.
    """

    members: list[int]
    is_turn: bool
    asks: bool
    is_sent: bool


class _Item(Struct):
    """What a message is to its neighbours.

    Attributes:
        calls: Ids of the calls in it.
        results: Ids of the calls that it answers.
        asks: It holds words of the user.
    """

    kind: _Kind
    calls: list[Any] = []
    results: list[Any] = []
    asks: bool = False


def read(
    given: Any, *, model: str, endpoint: Endpoint | None, system: Any, tools: Sequence[Any] | None
) -> Conversation:
    """The conversation in `given`: messages, or a request with messages or input.

    Raises:
        TypeError: It is neither.
        ValueError: It is a request of another kind, one whose history the provider keeps, or
            one beside which tools or a system prompt were given.
    """
    body = plain(given)
    if not isinstance(body, Mapping):
        if isinstance(body, str | bytes) or not isinstance(body, Sequence):
            raise TypeError(
                f"fit takes a list of messages or a request, not {type(given).__name__}"
            )
        format_ = endpoint or _format(body, model)
        around = {"system": system, "tools": tools}
        return _of(format_, {k: v for k, v in around.items() if v is not None}, body, None)
    if system is not None or tools is not None:
        raise ValueError("system= and tools= go with a list of messages; a request has its own")
    format_ = endpoint or endpoint_of(body, bare_name(model))
    kept = [name for name in ("previous_response_id", "conversation") if body.get(name)]
    if kept:
        raise ValueError(
            f"the provider keeps the history of this request ({kept[0]}): nothing of it can be "
            'dropped from here; send the whole input, or ask for truncation="auto"'
        )
    field = "input" if format_ == "openai.responses" else "messages"
    if format_ == "text" or not isinstance(body.get(field), Sequence):
        held = ", ".join(sorted(map(str, body))) or "nothing"
        raise ValueError(f"fit takes a request with messages or input; this one holds {held}")
    rest = {name: value for name, value in body.items() if name != field}
    messages = [body[field]] if isinstance(body[field], str) else body[field]
    return _of(format_, rest, messages, body)


def grouped(conversation: Conversation) -> tuple[list[Group], list[int]]:
    """The groups, and the places of what is always kept: instructions of the application."""
    look = _LOOKS[conversation.endpoint]
    groups: list[Group] = []
    fixed: list[int] = []
    homes: dict[str, int] = {}  # of calls, by id
    before: _Kind | None = None
    for place, message in enumerate(conversation.messages):
        item = look(plain(message))
        if item.kind == "fixed":
            fixed.append(place)
            continue
        joins = item.kind in ("result", "note", before)
        if not groups or not joins:
            is_turn = item.kind == "asked"
            groups.append(Group([], is_turn=is_turn, asks=is_turn, is_sent=is_turn))
        answered = [homes[one] for one in _ids(item.results) if one in homes]
        _merge(groups, homes, min(answered, default=None))
        last = groups[-1]
        last.members.append(place)
        last.asks = last.asks or item.asks
        if item.kind != "note":
            last.is_sent = item.kind in ("asked", "result")
            before = item.kind
        homes.update(dict.fromkeys(_ids(item.calls), len(groups) - 1))
    return groups, fixed


def _ids(given: list[Any]) -> list[str]:
    return [one for one in given if isinstance(one, str)]


def _merge(groups: list[Group], homes: dict[str, int], first: int | None) -> None:
    """All groups from `first` on become one: the last holds the result of a call in it."""
    if first is None or len(groups) == first + 1:
        return
    homes.update({one: first for one, home in homes.items() if home > first})
    while len(groups) > first + 1:
        last = groups.pop()
        groups[-1].members += last.members
        groups[-1].asks = groups[-1].asks or last.asks
        groups[-1].is_sent = last.is_sent


def _of(
    format_: Endpoint,
    body: Mapping[str, Any],
    messages: Sequence[Any],
    request: Mapping[str, Any] | None,
) -> Conversation:
    if format_ not in _LOOKS:
        raise ValueError(f"endpoint must be one of {', '.join(sorted(_LOOKS))}, not {format_!r}")
    before = []
    if request is None and "system" in body and format_ != "anthropic.messages":
        before = [{"role": "developer", "content": body["system"]}]
    return Conversation(
        endpoint=format_,
        field="input" if format_ == "openai.responses" else "messages",
        body=body,
        before=before,
        messages=messages,
        request=request,
    )


def _format(messages: Sequence[Any], model: str) -> Endpoint:
    """The format of messages alone, by their fields; where they leave it open, by the model."""
    for message in map(plain, messages):
        if isinstance(message, Mapping):
            parts = [plain(part) for part in listed(message.get("content"))]
            types = {str(part.get("type")) for part in parts if isinstance(part, Mapping)}
            if "type" in message or not _RESPONSES_PARTS.isdisjoint(types):
                return "openai.responses"
    return endpoint_of({"messages": messages}, bare_name(model))


_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [plain(block) for block in listed(message.get("content"))]
    return [block for block in found if isinstance(block, Mapping)]


def _anthropic(message: Any) -> _Item:
    if not isinstance(message, Mapping):
        return _Item("asked")
    blocks = _blocks(message)
    match message.get("role"):
        case "user":
            results = [b.get("tool_use_id") for b in blocks if b.get("type") == "tool_result"]
            if results:
                return _Item("result", results=results, asks=len(blocks) > len(results))
            return _Item("asked", asks=True)
        case "system":
            return _Item("note")  # between turns: it may only stand behind the user's
        case _:
            return _Item("model", calls=[b.get("id") for b in blocks if _is_call(b)])


def _is_call(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "tool_use"


def _chat(message: Any) -> _Item:
    if not isinstance(message, Mapping):
        return _Item("asked")
    match message.get("role"):
        case "system" | "developer":
            return _Item("fixed")
        case "user":
            return _Item("asked", asks=True)
        case "tool" | "function":
            return _Item("result", results=[message.get("tool_call_id")])
        case _:
            calls = [plain(call) for call in listed(message.get("tool_calls"))]
            return _Item("model", calls=[c.get("id") for c in calls if isinstance(c, Mapping)])


_ALWAYS = frozenset({"compaction", "additional_tools", "configuration_update"})
"""Items that hold what was before them, or that change what comes after."""


def _responses(item: Any) -> _Item:
    if not isinstance(item, Mapping):
        return _Item("asked")
    kind = str(item.get("type") or "message")
    if kind == "message":
        return _Item("model") if item.get("role") == "assistant" else _chat(item)
    if kind in _ALWAYS:
        return _Item("fixed")
    if kind.endswith("_output"):
        return _Item("result", results=[item.get("call_id")])
    if kind == "mcp_approval_response":
        return _Item("result", results=[item.get("approval_request_id")])
    return _Item("model", calls=[item.get("call_id") or item.get("id")])


_LOOKS: dict[str, Callable[[Any], _Item]] = {
    "anthropic.messages": _anthropic,
    "openai.chat": _chat,
    "openai.responses": _responses,
}
