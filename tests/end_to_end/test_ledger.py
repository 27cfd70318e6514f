"""A hundred turns of a growing chat: the ledger against an oracle that shares no code with it.

The oracle has prices of its own, from the providers' pages as of 2026-11-29, in whole
billionths of a dollar, and its own idea of what each prompt cache reads and writes.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

import anthropic
import openai
import pytest

import server_reference
import smartclient
from server_reference.scripted import Answer, ManualClock, rule
from server_reference.scripted.providers import CacheRules

pytestmark = pytest.mark.sdk

TURNS = 100
SYSTEM = "You answer as a lighthouse keeper would, in one sentence. " * 40
MARK = {"type": "ephemeral"}


class Rates(NamedTuple):
    """Nanodollars for each token, and how the model's cache works."""

    uncached: int
    read: int
    written: int
    output: int
    least: int


RATES = {
    "claude-opus-5-5": Rates(4_000, 200, 5_000, 20_000, least=512),  # $4, 0.20, 5 (5m), 20
    "gpt-6.1-sol": Rates(2_000, 100, 2_500, 10_000, least=1024),  # $2, 0.10, 2.50 (30m), 10
}


def question(turn):
    return f"Question {turn}: what did you see at {turn % 24} o'clock, and how far was it?"


def answer(turn):
    return f"At {turn % 24} o'clock I saw a sail, {turn * 7} cables to the north{'.' * (turn % 5)}"


def tokens(text):
    return (len(text) + 3) // 4


def oracle(model):
    """Nanodollars that the whole chat costs, and input tokens in all and from the cache."""
    rates, spent, whole, read_in_all = RATES[model], 0, 0, 0
    before, length = 0, tokens(SYSTEM)
    for turn in range(TURNS):
        length += tokens(question(turn))
        read = before if before >= rates.least else 0
        written = length - read if length >= rates.least else 0
        spent += (length - read - written) * rates.uncached + read * rates.read
        spent += written * rates.written + tokens(answer(turn)) * rates.output
        whole, read_in_all, before = whole + length, read_in_all + read, length
        length += tokens(answer(turn))
    return spent, whole, read_in_all


def claude_asks(client, model, said, *, stream):
    *earlier, (_, last) = said
    marked = [{"type": "text", "text": last, "cache_control": MARK}]
    messages = [{"role": role, "content": text} for role, text in earlier]
    reply = client.messages.create(
        model=model,
        max_tokens=100,
        system=[{"type": "text", "text": SYSTEM}],
        messages=[*messages, {"role": "user", "content": marked}],
        stream=stream,
    )
    for _ in reply if stream else ():
        pass


def plainly(client, **field):
    """As the SDK sends it, without its walk over each message of each turn, 100 ms in the end."""
    if isinstance(client, smartclient.Client):
        return field
    return dict.fromkeys(field, ()) | {"extra_body": field}


def chat_asks(client, model, said, *, stream):
    messages = [{"role": role, "content": text} for role, text in [("system", SYSTEM), *said]]
    more = {"stream_options": {"include_usage": True}} if stream else {}
    given = plainly(client, messages=messages)
    reply = client.chat.completions.create(model=model, stream=stream, **given, **more)
    for _ in reply if stream else ():
        pass


def response_asks(client, model, said, *, stream):
    items = [{"role": role, "content": text} for role, text in [("system", SYSTEM), *said]]
    reply = client.responses.create(model=model, stream=stream, **plainly(client, input=items))
    for _ in reply if stream else ():
        pass


def a_client(url, *, is_anthropic, is_sdk, **options):
    url = url if is_anthropic else f"{url}/v1"
    if not is_sdk:
        provider = "anthropic" if is_anthropic else "openai"
        return smartclient.Client(provider=provider, base_url=url, api_key="k", **options)
    kind = anthropic.Anthropic if is_anthropic else openai.OpenAI
    return smartclient.wrap(kind(base_url=url, api_key="k"), **options)


@pytest.mark.parametrize(
    ("model", "ask", "is_sdk"),
    [
        pytest.param("claude-opus-5-5", claude_asks, False, id="messages"),
        pytest.param("gpt-6.1-sol", chat_asks, False, id="chat"),
        pytest.param("gpt-6.1-sol", response_asks, False, id="responses"),
        pytest.param("claude-opus-5-5", claude_asks, True, id="messages-wrapped-sdk"),
        pytest.param("gpt-6.1-sol", chat_asks, True, id="chat-wrapped-sdk"),
        pytest.param(
            "gpt-6.1-sol", response_asks, True, id="responses-wrapped-sdk", marks=pytest.mark.long
        ),
    ],
)
def test_the_ledger_of_a_long_chat_is_right_to_the_last_digit(model, ask, is_sdk):
    ledger, clock, said = smartclient.Ledger(), ManualClock(), []
    answers = [Answer(answer(turn)) for turn in range(TURNS)]
    state = {"clock": clock, "prompt_cache": CacheRules()}
    with server_reference.scripted([rule(answers)], **state) as server:
        url, is_anthropic = server.base_url, ask is claude_asks
        with a_client(url, is_anthropic=is_anthropic, is_sdk=is_sdk, ledger=ledger) as client:
            for turn in range(TURNS):
                said.append(("user", question(turn)))
                ask(client, model, said, stream=turn % 2 == 1)
                said.append(("assistant", answer(turn)))
                clock.advance(10)

    spent, whole, read = oracle(model)
    total = ledger.total()
    assert (total.calls, total.failed, total.unpriced) == (TURNS, 0, 0)
    assert (total.input_tokens, total.cache_read) == (whole, read)
    assert read > 0.9 * whole
    assert total.cost == Decimal(spent).scaleb(-9)
    assert total.cost == sum(entry.cost for entry in ledger)
