"""The official SDKs on a server in virtual time: wrapped on its clock, plain in real time."""

from __future__ import annotations

import asyncio

import pytest

import server_reference
import smartclient
from server_reference.scripted import Answer, ErrorAnswer, ManualClock
from server_reference.scripted.faults import fault
from server_reference.scripted.providers import CacheRules, Limits

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

pytestmark = pytest.mark.sdk

HELLO = [{"role": "user", "content": "Hello"}]
MAKERS = {
    "anthropic": (anthropic.Anthropic, ""),
    "anthropic-async": (anthropic.AsyncAnthropic, ""),
    "openai": (openai.OpenAI, "/v1"),
    "openai-async": (openai.AsyncOpenAI, "/v1"),
}
every_sdk = pytest.mark.parametrize("name", MAKERS)


@pytest.fixture
def clock():
    return ManualClock(auto_advance=True)


def ask(name, server, *, dress=lambda client: client, **options):
    """One call by an SDK's client, which `dress` may wrap."""
    kind, suffix = MAKERS[name]
    client = dress(kind(base_url=server.base_url + suffix, api_key="any", **options))
    resource = client.messages if "anthropic" in name else client.chat.completions
    if "async" not in name:
        with client:
            return resource.create(model="m", max_tokens=8, messages=HELLO)

    async def main():
        async with client:
            return await resource.create(model="m", max_tokens=8, messages=HELLO)

    return asyncio.run(main())


@every_sdk
def test_a_wrapped_sdk_waits_on_the_clock(clock, name):
    busy = ErrorAnswer(429, headers={"retry-after": "45"})
    with server_reference.scripted([busy, busy, Answer("Hi", ttft=10)], clock=clock) as server:
        before = clock.now()
        ask(name, server, dress=lambda one: smartclient.wrap(one, clock=clock, wait_jitter=0.0))

        assert clock.now() - before == pytest.approx(100.0)
        server.assert_attempts(3)
        assert server.verdict().is_clean


@every_sdk
@pytest.mark.parametrize(
    "busy",
    [
        pytest.param(ErrorAnswer(529, headers={"retry-after": "100"}), id="an-error"),
        pytest.param(ErrorAnswer(503), id="without-a-wish"),
        pytest.param(fault("retry_after_huge"), id="a-fault"),
    ],
)
def test_a_plain_sdk_s_real_sleep_is_cut_short(clock, name, busy):
    server = server_reference.scripted([busy, busy, "Hi"], clock=clock, retry_after_ms=1)
    with server:
        ask(name, server)

        server.assert_attempts(3)
        real = [entry.asked_real for entry in server.journal.entries()]
        assert real[-1] - real[0] < 2.0


@every_sdk
def test_a_limit_of_the_clock_is_told_and_not_slept(clock, name):
    limits = Limits(requests_per_minute=1)
    with server_reference.scripted("Hi", clock=clock, rate_limits=limits, retry_after_ms=1) as one:
        ask(name, one)
        with pytest.raises((anthropic.RateLimitError, openai.RateLimitError)):
            ask(name, one, max_retries=1)
        clock.advance(60)

        ask(name, one)


@pytest.mark.parametrize(("seconds", "read"), [(299, 1200), (301, 0)])
@pytest.mark.parametrize("name", ["anthropic", "anthropic-async"])
def test_a_prompt_ages_on_the_clock_whoever_asks(clock, name, seconds, read):
    seen = []
    asked = [{"type": "text", "text": "word" * 1200, "cache_control": {"type": "ephemeral"}}]

    def dress(client):
        client.messages.create = counting(client.messages.create)
        return client

    def counting(create):
        def call(**fields):
            return create(**fields, system=asked)

        return call

    with server_reference.scripted("Hi", clock=clock, prompt_cache=CacheRules()) as server:
        for wait in (0, seconds):
            clock.advance(wait)
            seen.append(ask(name, server, dress=dress).usage.cache_read_input_tokens)

    assert seen == [0, read]
