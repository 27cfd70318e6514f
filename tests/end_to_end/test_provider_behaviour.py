"""Limits and prompt caches of the scripted server as the official SDKs see them."""

from __future__ import annotations

import pytest

import server_reference
from server_reference.scripted import ManualClock
from server_reference.scripted.providers import CacheRules, Limits, refusal

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

pytestmark = pytest.mark.sdk

PROMPT = "word" * 1100
SYSTEM = [{"type": "text", "text": PROMPT, "cache_control": {"type": "ephemeral"}}]


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def serve(clock):
    """Starts servers that play `rules`, and stops them."""
    servers = []

    def start(rules="Hello!", **options):
        servers.append(server_reference.scripted(rules, clock=clock, **options))
        return servers[-1].base_url

    yield start
    for server in servers:
        server.stop()


def claude(url):
    return anthropic.Anthropic(base_url=url, api_key="test", max_retries=0)


def gpt(url, **options):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="test", **{"max_retries": 0, **options})


def ask(client, text="hi", **fields):
    given = {"model": "claude-opus-5-5", "max_tokens": 50, "system": SYSTEM, **fields}
    return client.messages.create(messages=[{"role": "user", "content": text}], **given)


def test_messages_writes_once_and_reads_from_then_on(serve):
    with claude(serve(prompt_cache=CacheRules())) as client:
        first, second = ask(client).usage, ask(client, "ho").usage

    assert (first.cache_creation_input_tokens, first.cache_read_input_tokens) == (1100, 0)
    assert first.cache_creation.ephemeral_5m_input_tokens == 1100
    assert (second.cache_creation_input_tokens, second.cache_read_input_tokens) == (0, 1100)
    assert second.input_tokens == 1


def test_a_stream_is_told_the_same(serve):
    with claude(serve(prompt_cache=CacheRules())) as client:
        ask(client)
        with client.messages.stream(
            model="claude-opus-5-5",
            max_tokens=50,
            system=SYSTEM,
            messages=[{"role": "user", "content": "ho"}],
        ) as stream:
            usage = stream.get_final_message().usage

    assert usage.cache_read_input_tokens == 1100


def test_six_minutes_on_a_turned_clock_expire_the_prefix(serve, clock):
    with claude(serve(prompt_cache=CacheRules())) as client:
        ask(client)
        clock.advance(360)

        assert ask(client).usage.cache_read_input_tokens == 0


def test_a_prewarming_needs_no_rule(serve):
    with claude(serve(rules=[], prompt_cache=CacheRules())) as client:
        warmed = ask(client, max_tokens=0)

    assert (warmed.content, warmed.usage.output_tokens) == ([], 0)
    assert warmed.usage.cache_creation_input_tokens == 1100


def test_diagnostics_name_what_changed(serve):
    with claude(serve(prompt_cache=CacheRules())) as client:
        first = ask(client, diagnostics={"previous_message_id": None})
        changed = [{**SYSTEM[0], "text": f"now {PROMPT}"}]
        second = ask(client, system=changed, diagnostics={"previous_message_id": first.id})

    assert first.diagnostics is None
    assert second.diagnostics.cache_miss_reason.type == "system_changed"
    assert second.diagnostics.cache_miss_reason.cache_missed_input_tokens == 1100


def test_five_marks_are_a_bad_request(serve):
    with (
        claude(serve(prompt_cache=CacheRules())) as client,
        pytest.raises(anthropic.BadRequestError, match="at most 4 blocks"),
    ):
        ask(client, system=SYSTEM * 5)


def test_responses_tells_writes_reads_and_diagnostics(serve):
    with gpt(serve(prompt_cache=CacheRules())) as client:
        first = client.responses.create(model="gpt-5.6", input=PROMPT)
        second = client.responses.create(
            model="gpt-5.6",
            input=PROMPT,
            prompt_cache_options={"comparison_response_id": first.id},
        )

    written = first.usage.input_tokens_details
    assert (written.cache_write_tokens, written.cached_tokens) == (1100, 0)
    assert second.usage.input_tokens_details.cached_tokens == 1100
    assert second.prompt_cache_diagnostics.type == "cache_hit"


def test_chat_counts_cached_tokens_inside_the_prompt(serve):
    with gpt(serve(prompt_cache=CacheRules())) as client:
        for _ in range(2):
            usage = client.chat.completions.create(
                model="gpt-5.6", messages=[{"role": "user", "content": PROMPT}]
            ).usage

    assert (usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens) == (1100, 1100)


def test_both_header_families_are_on_every_reply(serve):
    url = serve(rate_limits=Limits(requests_per_minute=60, tokens_per_minute=6000))
    with claude(url) as one, gpt(url) as other:
        ours = one.messages.with_raw_response.create(
            model="m", max_tokens=5, messages=[{"role": "user", "content": "hi"}]
        ).headers
        theirs = other.chat.completions.with_raw_response.create(
            model="m", messages=[{"role": "user", "content": "hi"}]
        ).headers

    assert ours["anthropic-ratelimit-requests-remaining"] == "59"
    assert ours["anthropic-ratelimit-requests-reset"].endswith("Z")
    assert theirs["x-ratelimit-reset-requests"] == "1s"


def test_a_limit_that_is_reached_is_a_rate_limit_error(serve):
    with gpt(serve(rate_limits=Limits(requests_per_minute=1))) as client:
        client.responses.create(model="m", input="hi")
        with pytest.raises(openai.RateLimitError) as caught:
            client.responses.create(model="m", input="hi")

    assert caught.value.code == "rate_limit_exceeded"
    assert caught.value.response.headers.get_list("x-ratelimit-remaining-requests") == ["0"]
    assert caught.value.response.headers["retry-after"] == "60"


def test_money_at_anthropic_carries_its_finer_code(serve):
    answer = refusal("contract_spend_limit_reached").answer()
    with (
        claude(serve(answer)) as client,
        pytest.raises(anthropic.RateLimitError) as caught,
    ):
        ask(client)

    assert caught.value.body["error"]["details"]["error_code"] == "contract_spend_limit_reached"


@pytest.mark.parametrize(
    ("given", "attempts"),
    [
        (refusal("server_error", should_retry=False), 1),
        (refusal("rate_limit_exceeded", retry_after=3600), 1),
        (refusal("rate_limit_exceeded", retry_after=0.01, form="ms"), 2),
    ],
    ids=["x-should-retry false", "retry-after 3600", "retry-after-ms 10"],
)
def test_an_sdk_heeds_what_the_headers_say(serve, given, attempts):
    seen = []

    def count(received):
        seen.append(received.attempt)
        return given.answer()

    with gpt(serve(count), max_retries=1) as client, pytest.raises(openai.APIStatusError):
        client.responses.create(model="m", input="hi")

    assert len(seen) == attempts
