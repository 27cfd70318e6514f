"""What holds for every request, whatever is in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_reference.scripted.providers.cache_rules import CacheRules, estimate_tokens
from server_reference.scripted.providers.prompt_cache import PromptCache, Reading
from server_reference.scripted.request import Received
from tests.server_reference.scripted.providers.requests import (
    Asking,
    a_request,
    chat,
    marked,
    messages,
    text,
    user,
)

PATHS = ["/v1/messages", "/v1/chat/completions", "/v1/responses"]
KEYS = st.sampled_from(
    "model tools system messages input instructions role content type text cache_control ttl "
    "max_tokens stream thinking output_config tool_choice diagnostics previous_message_id "
    "prompt_cache_options prompt_cache_breakpoint prompt_cache_retention mode output format".split()
)
WORDS = st.sampled_from(
    "ephemeral 5m 1h 30m text tool_use tool_result thinking image user assistant tool explicit "
    "implicit gpt-5.1 gpt-5.6 claude-opus-5 enabled function_call_output compaction".split()
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=5)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=30,
)
BODIES = st.dictionaries(KEYS, JSON, max_size=8)


@pytest.mark.parametrize("path", PATHS)
@given(body=BODIES | JSON)
def test_any_body_is_read_or_refused_and_its_tokens_add_up(path, body):
    asking = Asking(CacheRules(default_minimum_tokens=0))

    for _ in range(2):
        found = asking.cache.read(a_request(path, body))
        if not isinstance(found, Reading):
            assert found.status == 400
            break
        found.begin()
        counts = [found.uncached, found.cache_read, *found.cache_write.values()]
        assert min(counts) >= 0
        assert sum(counts) == found.input_tokens


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [b"", b"{", b"[" * 900 + b"]" * 900, b'{"model": "\xff"}'])
def test_what_is_no_object_reads_nothing(path, body):
    cache = PromptCache(Asking().clock)

    assert cache.read(Received("POST", path, body=body)) == Reading()


@pytest.mark.parametrize("path", PATHS)
def test_what_is_nested_deeply_is_read_or_refused(path):
    deep = '{"a":' * 600 + "1" + "}" * 600
    name = "input" if path.endswith("responses") else "messages"
    body = f'{{"{name}": [{{"role": "user", "content": [{deep}]}}]}}'.encode()

    found = PromptCache(Asking().clock).read(Received("POST", path, body=body))

    assert isinstance(found, Reading) or found.status == 400


def test_another_endpoint_reads_nothing():
    cache = PromptCache(Asking().clock)

    assert cache.read(Received("GET", "/v1/models")) == Reading()


def test_beginning_twice_writes_once():
    asking = Asking()
    reading = asking.begin(messages("hi", system=[marked(text(1000))]))

    reading.begin()

    assert len(asking.cache) == 1


def test_looking_up_refreshes_nothing_until_the_request_is_accepted():
    asking = Asking()
    request = messages("hi", system=[marked(text(1000))])
    asking.begin(request)
    asking.clock.advance(200)
    asking.cache.look_up(messages("hi", system=[marked(text(1000))], at=200.0))
    asking.clock.advance(200)

    assert asking.read(request).cache_read == 0


def test_beginning_accepts_what_was_only_looked_up():
    asking = Asking()
    asking.begin(messages(user(marked(text(1000)))))
    asking.clock.advance(200)
    longer = messages(text(1000), user(marked("more")), at=200.0)
    found = asking.cache.look_up(longer)
    assert isinstance(found, Reading)
    found.begin()
    asking.clock.advance(200)

    assert asking.read(messages(text(1000), user(marked("other")))).cache_read == 1000


def test_clearing_forgets_everything():
    asking = Asking()
    asking.begin(messages("hi", system=[marked(text(1000))]))
    asking.begin(chat(text(1100)))

    asking.cache.clear()

    assert len(asking.cache) == 0
    assert asking.begin(chat(text(1100))).cache_read == 0


def test_no_more_prefixes_are_kept_than_there_is_room_for():
    asking = Asking(CacheRules(max_entries=10))
    for number in range(30):
        asking.begin(messages(f"{number}", system=[marked(f"{number}" + text(1000))]))

    assert len(asking.cache) == 10


def test_tokens_are_counted_as_the_test_wants():
    asking = Asking(CacheRules(count=len, default_minimum_tokens=5))

    reading = asking.begin(messages("four", model="mine", system=[marked("seven77")]))

    assert (reading.cache_write, reading.uncached) == ({"5m": 7}, 4)


@pytest.mark.parametrize(
    ("written", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本", 2), ("\ud800", 1)],
)
def test_a_token_is_four_bytes_rounded_up(written, tokens):
    assert estimate_tokens(written) == tokens


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"eviction_rate": 1.5}, "eviction_rate is a chance"),
        ({"max_entries": 0}, "max_entries must be at least 1"),
        ({"minimum_tokens": {"m": -1}}, r"minimum_tokens\['m'\] must be at least 0"),
    ],
)
def test_rules_that_cannot_be_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        CacheRules(**fields)
