"""An SDK's call whose attempts the SDK prepares: how it is entered, and what is sent."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import msgspec
import pytest

from smartclient._call import Headers
from smartclient._flow import exchange
from smartclient.testing import ManualClock, a_call
from smartclient.transports.attempts import Attempts, CallContext
from smartclient.transports.driver import Paused

BODY = {"model": "tiny", "messages": []}


class Wire:
    """A connector that notes what it is given."""

    def __init__(self, status=200) -> None:
        self.calls, self._status = [], status

    def exchange(self, call, timeline):
        self.calls.append(call)
        head = {
            "status": self._status,
            "reason": "OK",
            "headers": Headers(),
            "protocol": "HTTP/1.1",
        }
        return SimpleNamespace(**head, abandon=lambda: None)


class Policies:
    """In the place of a pipeline: sends each of `edits`, then answers with the last reply."""

    def __init__(self, *edits) -> None:
        self.clock, self.leftovers, self._edits = ManualClock(0.0), deque(), edits
        self.seen = []

    def flow(self, call):
        reply = None
        try:
            for edit in self._edits:
                reply = yield from exchange(edit(call))
        except BaseException as error:
            self.seen.append(error)
            raise
        return reply


def as_it_is(call):
    return call


def with_top_k(call):
    return call.with_payload({**call.payload, "top_k": 7})


def without_messages(call):
    return call.with_payload({"model": "tiny"})


def a_context(*, is_prepared=True):
    return CallContext(pipeline=Policies(), max_retries=2, started=0.0, is_prepared=is_prepared)


def signed(number: int, **changes):
    call = a_call(payload=dict(BODY), **changes)
    return msgspec.structs.replace(call, headers=Headers({"signature": str(number)}))


def test_a_plain_call_is_sent_again_by_its_transport():
    wire = Wire()
    made = msgspec.structs.replace(a_call(), headers=Headers({"x-stainless-retry-count": "0"}))

    Attempts(wire, Policies(as_it_is, as_it_is), a_context(is_prepared=False), made).send()

    assert [call.headers.get("x-stainless-retry-count") for call in wire.calls] == ["0", "1"]


def test_each_attempt_is_sent_as_it_was_prepared():
    wire, policies, context = Wire(), Policies(as_it_is, as_it_is), a_context()

    with pytest.raises(Paused):
        Attempts(wire, policies, context, signed(1)).send()
    Attempts(wire, policies, context, signed(2)).send()

    assert [call.headers.get("signature") for call in wire.calls] == ["1", "2"]
    assert len(wire.calls[0].trace.attempts) == 2


def test_an_edit_is_given_to_the_sdk_before_anything_is_sent():
    wire, policies, context = Wire(), Policies(with_top_k), a_context()
    options = SimpleNamespace(json_data={"messages": [], "user": "me"}, headers=None)

    with pytest.raises(Paused):
        Attempts(wire, policies, context, signed(1)).send()
    prepared = context.prepare(options)

    assert wire.calls == []
    assert prepared.json_data == {"messages": [], "user": "me", "top_k": 7}
    assert options.json_data == {"messages": [], "user": "me"}


def test_what_an_edit_took_away_the_sdk_does_not_send():
    context = a_context()
    options = SimpleNamespace(json_data=dict(BODY), extra_json={"user": "me"}, headers=None)

    with pytest.raises(Paused):
        Attempts(Wire(), Policies(without_messages), context, signed(1)).send()

    prepared = context.prepare(options)
    assert (prepared.json_data, prepared.extra_json) == ({"model": "tiny"}, {"user": "me"})


def test_the_sdk_says_which_attempt_it_prepares_unless_the_caller_does():
    context, policies = a_context(), Policies(as_it_is, as_it_is)
    with pytest.raises(Paused):
        Attempts(Wire(), policies, context, signed(1)).send()

    first = context.prepare(SimpleNamespace(json_data=None, headers={"a": "b"}))
    own = {"x-stainless-retry-count": "9"}
    second = context.prepare(SimpleNamespace(json_data=None, headers=own))

    assert first.headers == {"x-stainless-retry-count": "1", "a": "b"}
    assert second.headers == own


def test_a_redirect_on_the_way_to_what_waits_is_a_call_of_its_own():
    wire, context = Wire(), a_context()
    with pytest.raises(Paused):
        Attempts(wire, Policies(as_it_is, as_it_is), context, signed(1, path="/there")).send()
    waiting = context.waiting

    Attempts(wire, Policies(as_it_is), context, signed(2, path="/from/here")).send()

    assert context.waiting is waiting
    assert [call.target for call in wire.calls] == ["/there", "/from/here"]


@pytest.mark.parametrize("error", [LookupError("no token"), None], ids=["raised", "left"])
def test_what_waits_learns_that_the_sdk_gave_up(error):
    policies, context = Policies(as_it_is, as_it_is), a_context()
    with pytest.raises(Paused):
        Attempts(Wire(), policies, context, signed(1)).send()

    context.give_up(error)
    context.give_up(error)

    assert [type(one) for one in policies.seen] == [LookupError if error else GeneratorExit]


def test_what_was_asked_for_by_another_layer_is_prepared_as_it_was():
    options = SimpleNamespace(json_data={"a": 1}, headers=None)

    prepared = a_context().prepare(options)

    assert vars(prepared) == vars(options)


@pytest.mark.parametrize(("status", "told"), [(200, 0), (401, 1), (403, 0)])
def test_a_credential_that_was_refused_is_dropped(status, told):
    dropped = []
    context = msgspec.structs.replace(a_context(), renew=lambda: dropped.append(True))

    Attempts(Wire(status), Policies(as_it_is), context, signed(1)).send()

    assert len(dropped) == told
