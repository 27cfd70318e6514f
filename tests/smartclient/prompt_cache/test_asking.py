"""Asking the provider, and what it answers."""

from __future__ import annotations

import pytest

from smartclient.prompt_cache.asking import answer, asking
from smartclient.prompt_cache.walk import walk
from smartclient.wire._base import diagnosed
from tests.smartclient.prompt_cache.hinted_prompts import terms
from tests.smartclient.prompt_cache.payloads import chat, messages, responses

SAID = {"role": "user", "content": "Hello"}


def asked(payload, endpoint, reply_id, model="gpt-5.6"):
    model = "claude-opus-5" if endpoint == "anthropic.messages" else model
    return asking(payload, walk(payload, endpoint=endpoint), terms(model, endpoint), reply_id)


@pytest.mark.parametrize("reply_id", [None, "msg_1"])
def test_anthropic_is_asked_from_the_first_call_on(reply_id):
    made = asked(messages("Hello"), "anthropic.messages", reply_id)

    assert made["diagnostics"] == {"previous_message_id": reply_id}


def test_openai_is_asked_once_there_is_a_reply_to_compare_with():
    payload = responses(SAID, prompt_cache_options={"ttl": "12h"})

    assert asked(payload, "openai.responses", None) is payload
    options = asked(payload, "openai.responses", "resp_1")["prompt_cache_options"]
    assert options == {"ttl": "12h", "comparison_response_id": "resp_1"}


@pytest.mark.parametrize(
    ("payload", "endpoint", "model"),
    [
        pytest.param(messages("Hi", diagnostics=None), "anthropic.messages", "", id="its-own"),
        pytest.param(
            responses(SAID, prompt_cache_options={"comparison_response_id": "x"}),
            "openai.responses",
            "gpt-5.6",
            id="compares-already",
        ),
        pytest.param(chat(("user", "Hi")), "openai.chat", "gpt-5.6", id="chat-cannot"),
        pytest.param(responses(SAID), "openai.responses", "gpt-5.1", id="nor-can-older-models"),
    ],
)
def test_nothing_is_asked_otherwise(payload, endpoint, model):
    assert asked(payload, endpoint, "id_1", model) is payload


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ('{"id": "m", "diagnostics": null}', {"diagnostics": None}),
        (b'{"message": {"diagnostics": {"type": "x"}}}', {"diagnostics": {"type": "x"}}),
        ('{"prompt_cache_diagnostics": {}}', {"prompt_cache_diagnostics": {}}),
        ('{"id": "m"}', None),
        (b'{"id": "m"}', None),
    ],
)
def test_the_answer_is_as_it_came(source, told):
    assert answer(diagnosed(source)) == told
