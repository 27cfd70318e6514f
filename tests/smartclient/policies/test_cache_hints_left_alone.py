"""Calls that hints must not change, and what happens where they changed too much."""

from __future__ import annotations

import msgspec
import pytest

from smartclient._call import Origin
from smartclient._flow import Close, Exchange, Peek, exchange
from smartclient.testing import a_call, a_reply, play
from smartclient.wire import Failure
from tests.smartclient.policies.test_cache_hints import LONG, begun, hints, prompt, sent
from tests.smartclient.policies.test_cache_hints import with_headers as headed

ODD = Failure(kind="invalid", status=400, message="messages[0].content: expected a string")
NAMED = Failure(kind="invalid", status=400, message="prompt_cache_retention: not one of them")
MARKED = {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}
OWN = Origin("https", "eu.api.openai.com", 443)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"authorization": "ACS3-HMAC-SHA256 Credential=x"}, id="hmac"),
        pytest.param({"authorization": "Signature keyId=x"}, id="draft-signature"),
        pytest.param({"authorization": "OAuth oauth_signature=x"}, id="oauth-1"),
        pytest.param({"x_ms_content_sha256": "x"}, id="azure"),
        pytest.param({"x_hmac": "x"}, id="hmac-of-one-s-own"),
        pytest.param({"x_body_hash": "x"}, id="hash-of-one-s-own"),
    ],
)
def test_a_request_that_vouches_for_its_body_is_left_as_it_is(fields):
    call = headed(prompt(), **fields)

    assert sent(hints(), call)[0] is call


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"authorization": "Bearer x"}, id="key"),
        pytest.param({"x_stainless_retry_count": "1", "idempotency_key": "x"}, id="sdk"),
    ],
)
def test_other_headers_hinder_nothing(fields):
    out, _ = sent(hints(), headed(prompt(), **fields))

    assert "cache_control" in str(out.payload)


def test_a_request_for_a_count_is_left_as_it_is():
    payload = {"model": "gpt-5.6", "input": [{"role": "developer", "content": LONG}]}
    call = a_call(path="/v1/responses/input_tokens", payload=payload)

    assert sent(hints(), call)[0] is call


def as_text(more, **fields):
    """A call whose body is JSON that somebody else has written, with `more` at its end."""
    whole = msgspec.json.encode(prompt(**fields).payload)
    body = whole[:-1] + b',"extra":' + more + b"}"
    return a_call(payload=msgspec.json.decode(body), body=body)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"0.12345678901234567890", id="finer-than-a-float-is"),
        pytest.param(b'{"a":1,"a":2}', id="a-key-twice"),
    ],
)
def test_json_that_cannot_be_written_again_is_sent_as_it_came(more):
    call = as_text(more)

    out, _ = sent(hints(), call)

    assert out.body == call.body
    assert call.trace.cache.unmarked == "its JSON cannot be written again as it came"


@pytest.mark.parametrize(
    ("more", "written"),
    [
        pytest.param(b"1.0", b"1.0", id="a-float-stays-one"),
        pytest.param(b"1E5", b"100000.0", id="an-exponent"),
        pytest.param(b"1 ", b"1", id="space"),
        pytest.param(b"184467440737095516150", b"184467440737095516150", id="past-64-bits"),
        pytest.param(rb'"\u00e9\/"', '"é/"'.encode(), id="escapes"),
        pytest.param(b'{"b":1,"a":[[1,2]]}', b'{"b":1,"a":[[1,2]]}', id="order"),
    ],
)
def test_json_of_another_hand_says_the_same_with_marks(more, written):
    out, _ = sent(hints(), as_text(more))

    assert b"cache_control" in out.body
    assert out.body.endswith(b'"extra":' + written + b"}")


def test_what_the_caller_changes_while_the_call_waits_is_not_sent():
    turns = [{"role": "user", "content": "Hello"}]
    call = prompt(messages=turns)
    turns[0]["content"] = "Good-bye"

    out, _ = sent(hints(), call)

    assert out.body == call.body


def test_a_model_that_nobody_knows_decides_on_marks_itself():
    call = prompt(system=[MARKED] * 5, model="nobody-knows-it")

    assert sent(hints(), call)[0] is call


@pytest.mark.parametrize(
    ("mode", "fields", "told"),
    [
        pytest.param("full", {}, None, id="marked"),
        pytest.param("cautious", {}, "nothing that was sent twice is worth a mark", id="new"),
        pytest.param(
            "full",
            {"system": [MARKED] * 4, "messages": [{"role": "user", "content": LONG}] * 3},
            "the request's own marks leave no place for one",
            id="four-of-the-caller's",
        ),
        pytest.param(
            "full",
            {"messages": [{"role": "user", "content": [{}]}], "system": ""},
            "no block of this prompt can be marked",
            id="nowhere",
        ),
    ],
)
def test_the_report_says_why_nothing_is_marked(mode, fields, told):
    call = prompt(**({"stop_sequences": [LONG]} | fields))

    sent(hints(mode), call)

    assert call.trace.cache.unmarked == told


# What a gateway says of them.


def test_a_gateway_that_stumbles_over_our_form_gets_the_caller_s(caplog):
    policy, call, bad, ok = hints(), begun(prompt()), a_reply(400), a_reply()

    reply, asked = play(policy.flow(call, exchange), [bad, ODD, None, ok])

    assert reply is ok
    assert asked[1:] == [Peek(bad), Close(bad), Exchange(call)]
    assert "refused marks" in caplog.text
    assert sent(policy, prompt())[0].payload == call.payload


@pytest.mark.parametrize("failure", [ODD, NAMED], ids=["odd", "of-the-caller's-own-field"])
def test_what_is_refused_either_way_is_the_caller_s_mistake(failure):
    policy, call, bad, again = hints(), begun(prompt()), a_reply(400), a_reply(400)

    reply, _ = play(policy.flow(call, exchange), [bad, failure, None, again])

    assert reply is again
    assert "cache_control" in str(sent(policy, prompt())[0].payload)


def test_a_provider_names_what_it_refuses():
    call = msgspec.structs.replace(prompt(), origin=OWN)
    bad = a_reply(400)

    reply, asked = play(hints().flow(call, exchange), [bad, ODD])

    assert reply is bad
    assert len(asked) == 2


def test_callers_behind_one_gateway_are_told_apart_by_its_path():
    policy = hints("cautious")
    for tenant in ("ann", "bob"):
        call = msgspec.structs.replace(prompt(), target=f"/{tenant}/v1/messages")
        sent(policy, call)

    assert len(policy._hinter().lanes) == 2


def test_what_changes_with_each_call_tells_nobody_apart():
    policy = hints("cautious")
    for number in (1, 2):
        call = headed(prompt(), cookie=f"__cf_bm={number}", idempotency_key=str(number))
        sent(policy, msgspec.structs.replace(call, target=f"/v1/messages?id={number}"))

    assert len(policy._hinter().lanes) == 1
