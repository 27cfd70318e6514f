"""Calls in every way against a server with a prompt cache, and an audit of all of them.

Whatever a scenario is about, `Proof.audit` holds the rest: the server refused nothing, the
model read what its caller wrote, and reports, ledger and budget name the same dollars, which
are also those of a price table that stands here.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any, NamedTuple

import anthropic
import openai
import pytest

import server_reference
import smartclient
from server_reference.scripted import ManualClock
from server_reference.scripted.providers import CacheRules
from smartclient import CallReport

__all__ = [
    "MINUTE",
    "NANO",
    "WAYS",
    "Proof",
    "Told",
    "normal",
    "says",
    "share",
    "text",
    "tokens",
    "told",
    "ways",
]

MINUTE = 60.0
NANO = Decimal("1e-9")
WAYS = ("own", "sdk", "sdk-async", "own-async")
_MODELS = {"messages": "claude-opus-5-5", "chat": "gpt-5.6", "responses": "gpt-5.6"}
_PRICES = {  # nanodollars for a token: $4, 0.20, 5 (5m), 8 (1h), 20; $4, 0.40, 5 (30m), 20
    "claude-opus-5-5": {"input": 4000, "read": 200, "5m": 5000, "1h": 8000, "output": 20_000},
    "claude-opus-4-8": {"input": 5000, "read": 500, "5m": 6250, "1h": 10_000, "output": 25_000},
    "claude-haiku-4-5": {"input": 1000, "read": 100, "5m": 1250, "1h": 2000, "output": 5000},
    "gpt-5.6": {"input": 4000, "read": 400, "30m": 5000, "12h": 10_000, "output": 20_000},
    "gpt-5.1": {"input": 1250, "read": 125, "output": 10_000},
}
_OURS = ("prompt_cache_options", "prompt_cache_key")
_MARKS = ("cache_control", "prompt_cache_breakpoint")


def tokens(*texts: str) -> int:
    """As the server counts them: four bytes of UTF-8 each, in every block by itself."""
    return sum(-(-len(one.encode()) // 4) for one in texts)


def says(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def text(content: str, *, ttl: str | None = None) -> dict[str, Any]:
    """A block of text; with `ttl`, marked by its caller."""
    block: dict[str, Any] = {"type": "text", "text": content}
    return block if ttl is None else block | {"cache_control": {"type": "ephemeral", "ttl": ttl}}


class Told(NamedTuple):
    """Tokens of a call, as its report has them."""

    read: int
    written: dict[str, int]
    uncached: int


def told(report: CallReport) -> Told:
    usage = report.usage
    assert usage is not None
    assert usage.cache_read is not None
    assert usage.uncached is not None
    return Told(usage.cache_read, dict(usage.cache_write or {}), usage.uncached)


def share(reports: Sequence[CallReport]) -> float:
    """Tokens that were read from the cache, of all of the input."""
    read = sum(told(one).read for one in reports)
    return read / sum(one.usage.input_tokens or 0 for one in reports if one.usage)


class Proof:
    """A client, made in one way, and its server.

    Args:
        api: `messages`, `chat` or `responses`.
        way: One of `WAYS`.
        answer: What the server plays.
        real_time: Both ends have the machine's time; else every wait passes at once.
        refuses: Statuses that the scenario is about; any other fails the audit.
        options: Settings of the client.
    """

    def __init__(
        self,
        api: str = "messages",
        *,
        way: str = "own",
        hints: Any = "full",
        model: str | None = None,
        rules: CacheRules | None = None,
        answer: Any = "Fine.",
        real_time: bool = False,
        refuses: tuple[int, ...] = (),
        **options: Any,
    ) -> None:
        self.api, self.way, self.model = api, way, model or _MODELS[api]
        self._refuses, self._plain_calls = refuses, 0
        self.clock = ManualClock(auto_advance=True)
        time: dict[str, Any] = {} if real_time else {"clock": self.clock}
        self.server = server_reference.scripted(answer, prompt_cache=rules or CacheRules(), **time)
        self.reports: list[CallReport] = []
        self.asked: list[dict[str, Any]] = []
        self.ledger = smartclient.Ledger()
        self.budget = smartclient.Budget(dollars=100)
        self._options = {
            "cache_hints": hints,
            "on_report": self.reports.append,
            "ledger": self.ledger,
            "budgets": [self.budget],
            "wait_jitter": 0.0,
            **time,
            **options,
        }
        self._runner = asyncio.Runner()
        self.client = self.new_client()

    @property
    def is_async(self) -> bool:
        return self.way.endswith("async")

    @property
    def _url(self) -> str:
        return self.server.base_url + ("" if self.api == "messages" else "/v1")

    def new_client(self) -> Any:
        url = self._url
        if self.way.startswith("own"):
            kind = smartclient.AsyncClient if self.is_async else smartclient.Client
            provider = "anthropic" if self.api == "messages" else "openai"
            return kind(provider=provider, base_url=url, api_key="test", **self._options)
        return smartclient.wrap(self._plain(url), **self._options)

    def _plain(self, url: str) -> Any:
        package: Any = anthropic if self.api == "messages" else openai
        name = "Anthropic" if self.api == "messages" else "OpenAI"
        return getattr(package, f"{'Async' * self.is_async}{name}")(base_url=url, api_key="test")

    def fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        """All of a request, of which `fields` are the caller's."""
        asked = {"model": self.model, **fields}
        if self.api == "messages":
            asked.setdefault("max_tokens", 20)
        if self.api == "chat" and asked.get("stream"):
            asked.setdefault("stream_options", {"include_usage": True})
        if "stream" in asked:
            asked["stream"] = asked.pop("stream")  # where our own client puts it: last
        copy = json.loads(json.dumps(asked))
        self.asked.append(copy | copy.pop("extra_body", {}))
        return asked

    def create(self, client: Any | None = None) -> Callable[..., Any]:
        client = client or self.client
        resource = client.chat.completions if self.api == "chat" else getattr(client, self.api)
        create: Callable[..., Any] = resource.create
        return create

    def ask(self, **fields: Any) -> CallReport:
        """Make a call, read all of its answer, and return its report."""
        self._call(self.fields(fields))
        return self.reports[-1]

    def _call(self, asked: dict[str, Any]) -> None:
        if self.is_async:
            self._runner.run(self._ask_async(asked))
            return
        answer = self.create()(**asked)
        if asked.get("stream"):
            list(answer)

    async def _ask_async(self, asked: dict[str, Any]) -> None:
        answer = await self.create()(**asked)
        if asked.get("stream"):
            async for _ in answer:
                pass

    def say(self, system: Any, turns: list[dict[str, Any]], **more: Any) -> CallReport:
        """Ask with a system prompt and turns, in the words of the API."""
        if self.api == "messages":
            return self.ask(system=system, messages=turns, **more)
        turns = [says("developer", system), *turns]
        return self.ask(**{"messages" if self.api == "chat" else "input": turns}, **more)

    def chat(
        self, turns: int, system: Any, *, gap: float = 20.0, question: str = "What of number {}? "
    ) -> list[CallReport]:
        """A conversation that grows by a question and the answer `Fine.`."""
        said: list[dict[str, Any]] = []
        for turn in range(turns):
            said.append(says("user", question.format(turn) * 10))
            self.say(system, said)
            said.append(says("assistant", "Fine."))
            self.clock.advance(gap)
        return self.reports[-turns:]

    def at_once(self, many: list[dict[str, Any]]) -> list[CallReport]:
        """Make calls together: in threads, or as tasks of one loop."""
        asked = [self.fields(fields) for fields in many]
        if not self.is_async:
            gate = threading.Barrier(len(asked), timeout=20)

            def call(fields: dict[str, Any]) -> None:
                gate.wait()
                self._call(fields)

            with ThreadPoolExecutor(len(asked)) as pool:
                list(pool.map(call, asked))
            return self.reports[-len(asked) :]

        async def main() -> None:
            await asyncio.gather(*(self._ask_async(fields) for fields in asked))

        self._runner.run(main())
        return self.reports[-len(asked) :]

    def plain_body(self) -> bytes:
        """The last call's as it is sent without us: by the SDK itself, or as compact JSON."""
        asked = self.asked[-1]
        if self.way.startswith("own"):
            return json.dumps(asked, ensure_ascii=False, separators=(",", ":")).encode()
        self._plain_calls += 1
        bare = self._plain(self._url)
        made = self.create(bare)(**asked)
        if self.is_async:

            async def main() -> None:
                answer = await made
                if asked.get("stream"):
                    await answer.close()
                await bare.close()

            self._runner.run(main())
        else:
            if asked.get("stream"):
                made.close()
            bare.close()
        self.server.settle()
        return self.server.journal.entries()[-1].body

    def bodies(self) -> list[dict[str, Any]]:
        """What the server was sent."""
        self.server.settle()
        return [json.loads(entry.body) for entry in self.server.journal.entries()]

    def marks(self, number: int = -1) -> list[tuple[str, str]]:
        """Where the marks of a request stand, and for how long."""
        return list(_marks(self.bodies()[number], ""))

    def audit(self) -> None:
        """What holds whatever a scenario is about; see the module."""
        entries = self.server.journal.entries()
        assert {entry.status for entry in entries} - {200, *self._refuses} == set()
        sent = {json.dumps(normal(body)) for body in self.bodies()}
        assert sent <= {json.dumps(normal(asked)) for asked in self.asked}
        assert len(entries) == self._plain_calls + sum(len(one.attempts) for one in self.reports)
        for report in self.reports:
            _check_dollars(report, _PRICES.get(self.model, {}))
        spent = sum(map(_known_cost, self.reports), Decimal(0))
        assert self.ledger.total().cost == spent
        state = self.budget.state()
        booked = round(state.spent["dollars"] / 1e-9)
        is_whole = all(report.exact_cost is not None for report in self.reports)
        assert booked == spent / NANO if is_whole else booked >= spent / NANO
        assert state.held["dollars"] == 0

    def stop(self) -> None:
        if self.is_async:
            close = self.client.close
            self._runner.run(close())
        else:
            self.client.close()
        self._runner.close()
        self.server.stop()


def _known_cost(report: CallReport) -> Decimal:
    """What a call cost, or the least that it can have cost."""
    return report.exact_cost or Decimal(str(report.cost_at_least or 0))


def _check_dollars(report: CallReport, prices: dict[str, int]) -> None:
    """By hand: what a report's tokens cost, and what the cache saved of that."""
    usage = report.usage
    if usage is None or report.exact_cost is None:
        return
    written = dict(usage.cache_write or {})
    parts = [
        usage.uncached * prices["input"],
        usage.cache_read * prices["read"],
        *(count * prices[ttl] for ttl, count in written.items()),
    ]
    assert usage.input_tokens == usage.uncached + usage.cache_read + sum(written.values())
    assert report.exact_cost / NANO == sum(parts) + usage.output * prices["output"]
    if report.cache is not None and report.cache.savings is not None:
        saved = usage.input_tokens * prices["input"] - sum(parts)
        assert report.cache.savings == float(saved * NANO)
        assert report.cache.actual_read == usage.cache_read


def normal(body: dict[str, Any]) -> Any:
    """A request as the model reads it: without marks, every text as a block, in its order."""
    kept = {name: value for name, value in body.items() if name not in _OURS and value is not None}
    kept = {name: kept[name] for name in sorted(kept)}  # fields of the request have no order
    kept.pop("stream", None)
    if isinstance(kept.get("system"), str):
        kept["system"] = [text(kept["system"])]
    for name in ("messages", "input"):
        if isinstance(kept.get(name), list):
            kept[name] = [_lifted(turn, name) for turn in kept[name]]
    return _unmarked(kept)


def _lifted(turn: dict[str, Any], name: str) -> dict[str, Any]:
    content = turn.get("content")
    if not isinstance(content, str):
        return turn
    kind = "text"
    if name == "input":
        kind = "output_text" if turn["role"] == "assistant" else "input_text"
    return {**turn, "content": [{"type": kind, "text": content}]}


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(one) for name, one in value.items() if name not in _MARKS}
    return [_unmarked(one) for one in value] if isinstance(value, list) else value


def _marks(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        for name in _MARKS:
            if name in value:
                yield path, value[name].get("ttl", "")
        for name, one in value.items():
            if name not in _MARKS:
                yield from _marks(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _marks(one, f"{path}[{number}]")


def ways(*apis: str) -> Any:
    """The parametrisation of a test over ways to call; without `long`, a few of them, which
    take turns from test to test."""
    turn = next(_turns)
    quick = 4 if len(apis) > 1 else 2  # one way for each API, or two for a single one
    return pytest.mark.parametrize(
        ("api", "way"),
        [
            pytest.param(
                api,
                way,
                id=f"{api}-{way}",
                marks=[pytest.mark.long] if (3 * number + place + turn) % quick else [],
            )
            for (number, api), (place, way) in itertools.product(enumerate(apis), enumerate(WAYS))
        ],
    )


_turns = itertools.count()
