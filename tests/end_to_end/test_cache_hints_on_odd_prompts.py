"""Whatever is sent, hints make no 400 of it and change nothing that the model reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server_reference.scripted.providers.anthropic_prompt import read_anthropic
from server_reference.scripted.providers.cache_rules import CacheRules
from server_reference.scripted.providers.openai_prompt import OpenAIPrompt, read_openai
from server_reference.scripted.providers.prompt_walk import Prompt
from server_reference.scripted.request import Received
from smartclient import RefusedError
from smartclient._cache_hints import CacheHints
from smartclient._call import Call
from smartclient._flow import Exchange, Outcome, exchange
from smartclient.policies.cache_hints import Hints
from smartclient.testing import ManualClock, a_call, a_reply, play
from smartclient.wire import Usage
from tests.end_to_end.odd_prompts import BIG, ODD

OURS = ("cache_control", "prompt_cache_breakpoint", "prompt_cache_options", "prompt_cache_key")
DEVELOPER = {"role": "developer", "content": BIG}


def is_taken(path: str, body: bytes) -> bool:
    """Whether the provider would answer, and not with a 400."""
    read = read_anthropic if path == "/v1/messages" else read_openai
    found = read(Received("POST", path, body=body), "me", CacheRules())
    return isinstance(found, Prompt | OpenAIPrompt)


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: unmarked(one) for name, one in value.items() if name not in OURS}
    return [unmarked(one) for one in value] if isinstance(value, list) else value


def read(body: bytes) -> bytes:
    """What a model reads of a request: without marks, and with every text a block."""
    plain = unmarked(msgspec.json.decode(body))
    name = "messages" if "messages" in plain else "input"
    kind = "text" if name == "messages" else "input_text"

    def block(text: Any) -> Any:
        return [{"type": kind, "text": text}] if isinstance(text, str) else text

    said = plain[name]
    turns = [{"role": "user", "content": said}] if isinstance(said, str) else said
    names = ("content", "output")
    plain[name] = [{n: block(v) if n in names else v for n, v in turn.items()} for turn in turns]
    if "system" in plain:
        plain["system"] = block(plain["system"])
    return msgspec.json.encode(plain)


def grown(payload: dict[str, Any], turns: int) -> bytes:
    """The conversation some turns later."""
    name = "messages" if "messages" in payload else "input"
    said = payload[name]
    if isinstance(said, list):
        said = [*said, *[{"role": "user", "content": "and then " * 50}] * turns]
    return msgspec.json.encode({**payload, name: said})


def sent(policy: Hints, path: str, body: bytes) -> Call | None:
    """What goes out, answered by a reply that tells of a write; `None`: it was refused."""
    call = a_call(path=path, payload=msgspec.json.decode(body), body=body)
    attempt = call.trace.begin(call.origin, at=0.0)
    try:
        reply, asked = play(policy.flow(call, exchange), [a_reply(call=call)])
    except RefusedError:
        return None
    attempt.usage = Usage(uncached=10, cache_read=0, cache_write={"5m": 3000}, output=1)
    for tap in reply.taps:
        play(tap.after(Outcome("complete", 1.0)), [])
    assert isinstance(asked[0], Exchange)
    return asked[0].call


def check(path: str, payload: dict[str, Any], mode: str) -> None:
    policy = Hints(clock=ManualClock(0.0), hints=CacheHints(mode=mode))
    for turns in (0, 1, 1, 2):
        body = grown(payload, turns)
        out = sent(policy, path, body)
        if is_taken(path, body):
            assert out is not None
            assert is_taken(path, out.body)
        assert out is None or read(out.body) == read(body)


PLACES = [(path, mode) for path in ODD for mode in ("cautious", "full")]


@pytest.mark.parametrize(("path", "mode"), PLACES)
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_odd_prompts_are_read_as_they_were_given(path, mode, data):
    check(path, data.draw(ODD[path]), mode)


@pytest.mark.long
@pytest.mark.parametrize(("path", "mode"), PLACES)
@given(st.data())
@settings(max_examples=3000, deadline=None)
def test_many_odd_prompts_are_read_as_they_were_given(path, mode, data):
    check(path, data.draw(ODD[path]), mode)


@pytest.mark.parametrize(
    ("path", "payload"),
    [
        ("/v1/messages", {"model": "claude-opus-5", "system": BIG, "messages": []}),
        ("/v1/chat/completions", {"model": "gpt-5.6", "messages": [DEVELOPER]}),
        ("/v1/responses", {"model": "gpt-5.6", "input": [DEVELOPER]}),
    ],
)
def test_such_prompts_are_marked(path, payload):
    """So that the tests above have something to look at."""
    policy = Hints(clock=ManualClock(0.0), hints=CacheHints())

    outs = [sent(policy, path, grown(payload, turns)) for turns in (1, 1, 2)]

    assert outs[-1] is not None
    assert outs[-1].body != grown(payload, 2)
