"""Calls against a scripted server that keeps a prompt cache, on one clock."""

from __future__ import annotations

import json
from typing import Any

import server_reference
import smartclient
from server_reference.scripted import ManualClock
from server_reference.scripted.providers import CacheRules

__all__ = ["MINUTE", "Cached", "text_block", "user"]

MINUTE = 60.0
_MODELS = {"messages": "claude-opus-5-5", "chat": "gpt-5.6", "responses": "gpt-5.6"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def text_block(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


class Cached:
    """A client and its server.

    Args:
        api: What `ask` calls: `messages`, `chat` or `responses`.
        hints: The client's `cache_hints`.
        rules: The cache's; `None` for the provider's own.
        auto_advance: Every wait passes at once; else both ends have the machine's time.
    """

    def __init__(
        self,
        api: str,
        hints: Any,
        *,
        model: str | None = None,
        rules: CacheRules | None = None,
        answer: Any = "Fine.",
        auto_advance: bool = True,
    ) -> None:
        self.api, self.model = api, model or _MODELS[api]
        self._hints = hints
        self.clock = ManualClock(auto_advance=True)
        time: Any = {"clock": self.clock} if auto_advance else {}
        state = {"prompt_cache": rules or CacheRules()}
        self.server = server_reference.scripted(answer, **time, **state)
        is_anthropic = api == "messages"
        self.client = smartclient.Client(
            provider="anthropic" if is_anthropic else "openai",
            base_url=self.server.base_url + ("" if is_anthropic else "/v1"),
            api_key="test",
            cache_hints=hints,
            **time,
        )

    def async_client(self) -> smartclient.AsyncClient:
        return smartclient.AsyncClient(
            base_url=self.server.base_url, api_key="test", cache_hints=self._hints
        )

    def send(self, **fields: Any) -> Any:
        """Make a call, and return its answer."""
        fields = {"model": self.model, **fields}
        match self.api:
            case "messages":
                return self.client.messages.create(max_tokens=20, **fields)
            case "chat":
                return self.client.chat.completions.create(**fields)
            case _:
                return self.client.responses.create(**fields)

    def ask(self, **fields: Any) -> smartclient.CallReport:
        """Make a call, and return its report."""
        self.send(**fields)
        report = self.client.last_report
        assert report is not None
        return report

    def chat(self, turns: int, *, system: Any, gap: float = 20.0, words: int = 40) -> list[Any]:
        """A conversation that grows; the usage of each turn."""
        said: list[Any] = []
        used = []
        for turn in range(turns):
            said.append(user(f"question {turn} " * words))
            if self.api == "messages":
                report = self.ask(system=system, messages=said)
            elif self.api == "chat":
                report = self.ask(messages=[{"role": "system", "content": system}, *said])
            else:
                report = self.ask(instructions=system, input=said)
            used.append(report.usage)
            said.append({"role": "assistant", "content": "Fine."})
            self.clock.advance(gap)
        return used

    def bodies(self) -> list[dict[str, Any]]:
        """What the server was sent."""
        return [json.loads(entry.body) for entry in self.server.journal.entries()]

    def stop(self) -> None:
        self.client.close()
        self.server.stop()
