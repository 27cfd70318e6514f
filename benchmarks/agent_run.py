"""A committed run of an agent, step by step, as requests in either vendor's format.

`data/agent_run.json` says what it is made of and what of it is made up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server_reference.scripted import Answer, ToolCall

__all__ = ["Step", "anthropic_steps", "openai_steps"]

_DATA = Path(__file__).with_name("data") / "agent_run.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of the run.

    Args:
        request: The body, without the model.
        answer: What the model says to it.
        seconds: How long the agent's tools take until the next call.
    """

    request: Mapping[str, Any]
    answer: Answer
    seconds: float


def anthropic_steps(*, tells_time: bool = False) -> Iterator[Step]:
    """The run as Messages requests; nothing in them is marked.

    Args:
        tells_time: The system prompt ends with the time of day, as many agents' does.
    """
    run = _run()
    seconds = 0.0
    messages = [{"role": "user", "content": [{"type": "text", "text": run["task"]}]}]
    for step in run["steps"]:
        system = [{"type": "text", "text": text} for text in run["system"]]
        if tells_time:
            system.append(
                {"type": "text", "text": f"It is {9 * 3600 + seconds:.0f} s past midnight."}
            )
        seconds += step["after_s"]
        request = {
            "max_tokens": 4096,
            "system": system,
            "tools": run["tools"],
            "messages": list(messages),
        }
        yield Step(request=request, answer=_answer(step), seconds=step["after_s"])
        messages.append({"role": "assistant", "content": step["content"]})
        messages.append({"role": "user", "content": step["results"]})


def openai_steps() -> Iterator[Step]:
    """The run as Responses requests."""
    run = _run()
    tools = [
        {
            "type": "function",
            "name": tool["name"],
            "description": tool["description"],
            "parameters": tool["input_schema"],
        }
        for tool in run["tools"]
    ]
    told = [{"type": "input_text", "text": text} for text in run["system"]]
    items: list[dict[str, Any]] = [
        {"role": "developer", "content": told},
        {"role": "user", "content": [{"type": "input_text", "text": run["task"]}]},
    ]
    for step in run["steps"]:
        request = {"max_output_tokens": 4096, "tools": tools, "input": list(items)}
        yield Step(request=request, answer=_answer(step), seconds=step["after_s"])
        items += _items(step)


def _run() -> dict[str, Any]:
    run: dict[str, Any] = json.loads(_DATA.read_text())
    return run


def _items(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for block in step["content"]:
        if block["type"] == "text":
            said = [{"type": "output_text", "text": block["text"], "annotations": []}]
            yield {"type": "message", "role": "assistant", "content": said}
        else:
            arguments = json.dumps(block["input"])
            call = {"call_id": block["id"], "name": block["name"], "arguments": arguments}
            yield {"type": "function_call", **call}
    for result in step["results"]:
        answered = {"call_id": result["tool_use_id"], "output": result["content"]}
        yield {"type": "function_call_output", **answered}


def _answer(step: Mapping[str, Any]) -> Answer:
    said = [block for block in step["content"] if block["type"] == "text"]
    calls = [
        ToolCall(block["name"], block["input"], id=block["id"])
        for block in step["content"]
        if block["type"] == "tool_use"
    ]
    return Answer("".join(block["text"] for block in said), tool_calls=calls)
