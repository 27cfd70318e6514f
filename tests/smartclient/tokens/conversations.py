"""Conversations in three formats with parallel tools, and what each provider wants of one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

__all__ = ["FORMATS", "Turn", "built", "chats", "faults", "words_of_user"]

FORMATS = ("anthropic.messages", "openai.chat", "openai.responses")

Turn = tuple[int, list[tuple[int, int]], int]
"""Words of the user, steps (calls in parallel, words of each result), words of the answer."""

turns = st.tuples(
    st.integers(1, 60),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 60)), max_size=4),
    st.integers(0, 60),
)
chats = st.lists(turns, min_size=1, max_size=12)


def built(format_: str, chat: Sequence[Turn], *, is_answered: bool = False) -> list[Any]:
    """A conversation; its last turn waits for an answer unless `is_answered`."""
    build = {
        "anthropic.messages": _anthropic,
        "openai.chat": _chat,
        "openai.responses": _responses,
    }[format_]
    found: list[Any] = []
    for number, (asked, steps, answer) in enumerate(chat):
        found.append({"role": "user", "content": f"Q{number} " + "ask " * asked})
        for step, (calls, words) in enumerate(steps):
            ids = [f"c{number}-{step}-{call}" for call in range(calls)]
            found += build(ids, "found " * words)
        if is_answered or number + 1 < len(chat):
            found.append({"role": "assistant", "content": f"A{number} " + "say " * answer})
    return found


def _anthropic(ids: list[str], result: str) -> list[Any]:
    calls = [{"type": "tool_use", "id": one, "name": "look", "input": {}} for one in ids]
    results = [{"type": "tool_result", "tool_use_id": one, "content": result} for one in ids]
    thought = {"type": "thinking", "thinking": "hm", "signature": ids[0]}
    return [
        {"role": "assistant", "content": [thought, *calls]},
        {"role": "user", "content": results},
    ]


def _chat(ids: list[str], result: str) -> list[Any]:
    function = {"name": "look", "arguments": "{}"}
    calls = [{"id": one, "type": "function", "function": function} for one in ids]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": one, "content": result} for one in ids),
    ]


def _responses(ids: list[str], result: str) -> list[Any]:
    calls = [
        {"type": "function_call", "call_id": one, "name": "look", "arguments": "{}"} for one in ids
    ]
    results = [{"type": "function_call_output", "call_id": one, "output": result} for one in ids]
    return [{"type": "reasoning", "id": f"r-{ids[0]}", "summary": []}, *calls, *results]


def words_of_user(messages: Sequence[Any]) -> list[str]:
    """The texts of the user, results of tools left out."""
    found = []
    for message in messages:
        if message.get("role") != "user":
            continue
        content = message["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        found += [part["text"] for part in parts if "text" in part]
    return found


def faults(format_: str, messages: Sequence[Any]) -> list[str]:
    """What a provider would refuse."""
    judge = {
        "anthropic.messages": _anthropic_faults,
        "openai.chat": _chat_faults,
        "openai.responses": _responses_faults,
    }[format_]
    return judge([one for one in messages if one.get("role") not in ("system", "developer")])


def _anthropic_faults(messages: Sequence[Any]) -> list[str]:
    found = [] if messages and messages[0]["role"] == "user" else ["the first is not the user's"]
    roles = [message["role"] for message in messages]
    found += [f"two of {one} in a row" for one, next_ in pairwise(roles) if one == next_]
    waiting: set[str] = set()
    for message in messages:
        blocks = message["content"] if isinstance(message["content"], list) else []
        answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if answered != waiting:
            found.append(f"results {sorted(answered)} follow calls {sorted(waiting)}")
        waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
    return found + [f"no result of {one}" for one in waiting]


def _chat_faults(messages: Sequence[Any]) -> list[str]:
    found = [] if messages and messages[0]["role"] == "user" else ["the first is not the user's"]
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                found.append(f"a result without its call: {message['tool_call_id']}")
            waiting.discard(message["tool_call_id"])
            continue
        found += [f"no result of {one}" for one in waiting]
        waiting = {call["id"] for call in message.get("tool_calls", [])}
    return found + [f"no result of {one}" for one in waiting]


def _responses_faults(items: Sequence[Any]) -> list[str]:
    found = [] if items and items[0].get("role") == "user" else ["the first is not the user's"]
    called, answered = set(), set()
    for item, next_ in pairwise([*items, {}]):
        match item.get("type"):
            case "function_call":
                called.add(item["call_id"])
            case "function_call_output":
                if item["call_id"] not in called:
                    found.append(f"a result without its call: {item['call_id']}")
                answered.add(item["call_id"])
            case "reasoning":
                if next_.get("type") != "function_call":
                    found.append("reasoning without what it led to")
            case _:
                pass
    reasoned = {item["id"].removeprefix("r-") for item in items if item.get("type") == "reasoning"}
    firsts = {one for one in called if one.endswith("-0")}
    found += [f"{one} without its reasoning" for one in firsts - reasoned]
    return found + [f"no result of {one}" for one in called - answered]
