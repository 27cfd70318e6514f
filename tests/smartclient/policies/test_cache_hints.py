"""Marks on their way: placed once, the same for every attempt, never at the cost of a call."""

from __future__ import annotations

import logging

import msgspec
import pytest

from smartclient import RefusedError, catalog
from smartclient._cache_hints import CacheHints
from smartclient._call import Headers
from smartclient._errors import ExchangeError
from smartclient._flow import Close, Exchange, Outcome, Park, Peek, exchange
from smartclient.policies.cache_hints import Hints
from smartclient.testing import ManualClock, a_call, a_reply, play
from smartclient.wire import Failure, Usage

LONG = "a rule of some length " * 200
REFUSED = Failure(kind="invalid", status=400, message="cache_control: Extra inputs")


def hints(mode="full", *, clock=None, known=None, **more):
    return Hints(
        clock=clock or ManualClock(0.0), hints=CacheHints(mode=mode, **more), catalog=known
    )


def prompt(*contents, system=LONG, model="claude-opus-5", **fields):
    turns = [
        {"role": ("user", "assistant")[n % 2], "content": one}
        for n, one in enumerate(contents or ("Hello",))
    ]
    payload = {"model": model, "max_tokens": 9, "system": system, "messages": turns}
    return a_call(payload=payload | fields)


def with_headers(call, **fields):
    return msgspec.structs.replace(call, headers=call.headers.replaced(**fields))


def sent(policy, call, reply=None):
    """What goes out, and the reply that comes back."""
    call.trace.begin(call.origin, at=0.0)
    back, asked = play(policy.flow(call, exchange), [reply or a_reply(call=call)])
    return asked[0].call, back


def told(reply, usage, kind="complete", at=1.0):
    """Run what is due when the body says `usage` and ends."""
    reply.call.trace.attempts[-1].usage = usage
    for tap in reply.taps:
        play(tap.after(Outcome(kind, at)), [])


def counts(read=0, written=1100):
    return Usage(uncached=10, cache_read=read, cache_write={"5m": written}, output=1)


def test_a_marked_call_says_so_in_its_payload_and_its_body():
    out, _ = sent(hints(), prompt())

    assert out.payload["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert msgspec.json.decode(out.body) == out.payload


def test_a_small_call_passes_without_a_step_of_ours():
    call = a_call()

    assert hints().flow(call, lambda one: one) is call


def test_the_caller_s_payload_is_not_touched():
    call = prompt()
    before = msgspec.json.encode(call.payload)

    sent(hints(), call)

    assert msgspec.json.encode(call.payload) == before


def test_every_attempt_of_a_call_sends_the_same():
    policy, call = hints(), prompt()

    first, _ = sent(policy, call, a_reply(529))
    again = msgspec.structs.replace(call, headers=call.headers.replaced(x_attempt="2"))
    second, _ = sent(policy, again)

    assert second.body is first.body
    assert second.headers.get("x-attempt") == "2"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"authorization": "AWS4-HMAC-SHA256 Credential=x"}, id="aws"),
        pytest.param({"signature": "sig1=:x:"}, id="http-signature"),
        pytest.param({"x_request_signature": "x"}, id="somebody-s-own"),
        pytest.param({"content_digest": "sha-256=:x:"}, id="digest"),
    ],
)
def test_a_signed_request_is_left_as_it_is(fields):
    call = with_headers(prompt(), **fields)

    out, _ = sent(hints(), call)

    assert out is call


def test_an_sdk_that_signs_each_attempt_signs_our_marks_too():
    call = with_headers(prompt(), authorization="AWS4-HMAC-SHA256 x")
    call = msgspec.structs.replace(call, is_prepared=True)

    out, _ = sent(hints(), call)

    assert "cache_control" in str(out.payload)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(prompt(model="nobody-knows-it"), id="unknown-model"),
        pytest.param(prompt(messages="none"), id="no-messages"),
        pytest.param(
            msgspec.structs.replace(prompt(), target="/v1/messages/count_tokens"), id="count"
        ),
        pytest.param(msgspec.structs.replace(prompt(), payload=None), id="no-payload"),
        pytest.param(msgspec.structs.replace(prompt(), body=iter([b"x"])), id="streamed-body"),
    ],
)
def test_what_cannot_be_hinted_at_is_sent_as_it_is(call):
    out, _ = sent(hints(), call)

    assert out is call


def test_marks_that_would_be_refused_are_refused_here():
    control = {"type": "ephemeral"}
    system = [{"type": "text", "text": LONG, "cache_control": control} for _ in range(5)]

    with pytest.raises(RefusedError, match="not sent: a request may carry at most 4"):
        sent(hints("cautious"), prompt(system=system))


def test_a_small_call_with_such_marks_is_refused_too():
    system = [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "b", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ]

    with pytest.raises(RefusedError, match="stands after"):
        sent(hints(), prompt(system=system))


def test_a_failure_of_ours_costs_a_hint_and_not_the_call(caplog):
    class Broken(catalog.Catalog):
        def model(self, name):
            raise LookupError("no facts today")

    call = prompt()
    with caplog.at_level(logging.ERROR, "smartclient"):
        out, _ = sent(hints(known=Broken([])), call)

    assert out is call
    assert "no cache hints for this call" in caplog.text


def test_a_provider_that_refuses_marks_gets_the_call_without_them(caplog):
    policy, call, ok = hints(), begun(prompt()), a_reply()
    bad = a_reply(400)

    reply, asked = play(policy.flow(call, exchange), [bad, REFUSED, None, ok])

    assert reply is ok
    assert asked[1:] == [Peek(bad), Close(bad), Exchange(call)]
    assert "refused marks" in caplog.text
    assert sent(policy, prompt())[0].payload == call.payload


def test_a_refusal_of_what_we_did_not_change_is_not_looked_at():
    bad = a_reply(400)

    reply, asked = play(hints("cautious").flow(prompt(), exchange), [bad])

    assert reply is bad
    assert len(asked) == 1


def test_the_record_says_what_became_of_the_cache():
    policy, call = hints(), prompt()
    _, reply = sent(policy, call)
    told(reply, counts())

    again = prompt("Hello", "yes", "and")
    _, reply = sent(policy, again)
    told(reply, counts(read=1100, written=20))

    assert call.trace.cache.placed == ("system",)
    assert (call.trace.cache.miss, call.trace.cache.savings < 0) == ("cold_first", True)
    assert (again.trace.cache.predicted_read, again.trace.cache.actual_read) == (1100, 1100)
    assert again.trace.cache.miss is None
    assert again.trace.cache.savings > 0


def test_drift_is_told_where_nothing_could_be_marked():
    policy = hints("cautious")
    for minute in (3, 4):
        call = prompt(system=f"It is 2026-11-30T10:0{minute}:17Z. {LONG}")
        _, reply = sent(policy, call)
        told(reply, Usage(uncached=1100, cache_read=0, cache_write={}, output=1))

    assert call.trace.cache.drift_path.startswith("system@")
    assert "a date or time" in call.trace.cache.drift


def test_keys_share_nothing_and_are_not_kept():
    policy = hints("cautious")
    for key in ("key-of-ann", "key-of-bob"):
        call = with_headers(prompt(), x_api_key=key)
        _, reply = sent(policy, call)
        told(reply, counts())

    lanes = policy._hinter().lanes
    assert len(lanes) == 2
    assert "key-of" not in str(list(lanes._books))


def test_a_failed_call_writes_nothing():
    policy, call = hints(), prompt()
    flow = policy.flow(call, exchange)
    next(flow)
    with pytest.raises(ExchangeError):
        flow.throw(ExchangeError("gone", kind="read", sent="all", origin="x"))

    again = prompt("Hello", "yes", "and")
    sent(policy, again)

    assert again.trace.cache.predicted_read == 0


@pytest.mark.parametrize(
    ("calls", "keys"),
    [pytest.param(15, {None}, id="few"), pytest.param(40, {None, 1, 2}, id="many")],
)
def test_conversations_are_spread_over_keys_before_gpt_5_6(calls, keys):
    policy, found = hints("cautious"), set()
    for number in range(calls):
        turns = [{"role": "system", "content": LONG}, {"role": "user", "content": str(number)}]
        payload = {"model": "gpt-5.1", "messages": turns}
        out, _ = sent(policy, a_call(path="/v1/chat/completions", payload=payload))
        key = out.payload.get("prompt_cache_key")
        found.add(key if key is None else int(key.rpartition("-")[2]))

    assert found == keys


def test_a_key_of_the_caller_s_stays():
    payload = {"model": "gpt-5.1", "messages": [], "prompt_cache_key": "mine", "user": LONG}
    call = a_call(path="/v1/chat/completions", payload=payload)

    assert sent(hints(), call)[0].payload["prompt_cache_key"] == "mine"


# Cold fan-outs.


def begun(call):
    """With the record of an attempt, as a driver makes it."""
    call.trace.begin(call.origin, at=0.0)
    return call


def both(policy=None):
    policy = policy or hints(single_flight=5.0)
    leader = policy.flow(begun(prompt("one")), exchange)
    follower = policy.flow(begun(prompt("two")), exchange)
    return leader, next(leader), follower, next(follower)


def test_who_begins_alike_waits_until_the_first_reply_has_begun():
    leader, first, follower, parked = both()
    with pytest.raises(StopIteration):
        leader.send(a_reply())

    second = follower.send(True)

    assert isinstance(first, Exchange)
    assert isinstance(parked, Park)
    assert parked.latch.is_set
    assert parked.timeout == 5.0
    assert second.call.trace.cache.predicted_read > 1000


def test_when_the_first_one_fails_another_takes_its_place():
    policy = hints(single_flight=5.0)
    leader, _, follower, parked = both(policy)
    with pytest.raises(ExchangeError):
        leader.throw(ExchangeError("gone", kind="read", sent="all", origin="x"))

    third = policy.flow(prompt("three"), exchange)

    assert parked.latch.is_set
    assert isinstance(follower.send(True), Exchange)
    assert isinstance(next(third), Park)


@pytest.mark.parametrize("end", ["close", "gone"])
def test_a_first_one_that_is_dropped_keeps_nobody(end):
    leader, _, _, parked = both()

    if end == "close":
        leader.close()
    del leader

    assert parked.latch.is_set


def test_nobody_waits_longer_than_was_said():
    _, _, follower, _ = both()

    assert isinstance(follower.send(False), Exchange)


def test_a_reply_that_is_an_error_lets_another_one_lead():
    leader, _, follower, _ = both()
    with pytest.raises(StopIteration):
        leader.send(a_reply(529))

    assert isinstance(follower.send(True), Exchange)


def test_what_begins_otherwise_does_not_wait():
    policy = hints(single_flight=5.0)
    leader = policy.flow(prompt("one"), exchange)
    other = policy.flow(prompt("two", system="other " * 800), exchange)

    assert isinstance(next(leader), Exchange)
    assert isinstance(next(other), Exchange)


def test_a_second_attempt_does_not_wait():
    policy, call = hints(single_flight=5.0), prompt("two")
    sent(policy, call, a_reply(529))
    leader = policy.flow(prompt("one"), exchange)
    next(leader)

    assert isinstance(next(policy.flow(call, exchange)), Exchange)


def test_headers_are_seen_by_the_prompt_s_walk():
    """A set of betas breaks the prefix."""
    policy = hints("cautious")
    for betas in ("a", "b"):
        call = msgspec.structs.replace(
            prompt("Hello " * 500), headers=Headers([("anthropic-beta", betas)])
        )
        sent(policy, call)

    assert [mark for mark in call.trace.cache.placed if mark != "system"] == []


def test_a_forked_child_begins_anew(monkeypatch):
    """Its parent's locks may have been held by a thread that it does not have."""
    policy = hints()
    sent(policy, prompt())
    parents = policy._hinter()

    monkeypatch.setattr("os.getpid", lambda: -1)

    assert policy._hinter() is not parents
