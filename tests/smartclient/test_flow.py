"""Flows and how policies nest."""

from __future__ import annotations

from smartclient._flow import (
    Close,
    Exchange,
    Peek,
    Read,
    Sleep,
    close,
    compose,
    exchange,
    peek,
    read,
    sleep,
)
from smartclient.testing import OVERLOADED, a_call, a_reply, play


class Waiting:
    """Waits before and after what is inside it."""

    def __init__(self, before: float, after: float) -> None:
        self.before, self.after = before, after

    def flow(self, call, call_next):
        yield from sleep(self.before)
        reply = yield from call_next(call)
        yield from sleep(self.after)
        return reply


def test_the_first_policy_is_outermost():
    call, reply = a_call(), a_reply()

    result, asked = play(
        compose([Waiting(1.0, 4.0), Waiting(2.0, 3.0)])(call), [None, None, reply, None, None]
    )

    assert result is reply
    assert asked == [Sleep(1.0), Sleep(2.0), Exchange(call), Sleep(3.0), Sleep(4.0)]


def test_without_policies_a_call_is_one_exchange():
    call, reply = a_call(), a_reply()

    assert play(compose([])(call), [reply]) == (reply, [Exchange(call)])


def test_each_typed_face_yields_its_effect_and_returns_the_answer():
    call, reply = a_call(), a_reply()

    assert play(exchange(call), [reply]) == (reply, [Exchange(call)])
    assert play(peek(reply), [OVERLOADED]) == (OVERLOADED, [Peek(reply)])
    assert play(read(reply, limit=7), [b"body"]) == (b"body", [Read(reply, 7)])
    assert play(close(reply), [None]) == (None, [Close(reply)])
    assert play(sleep(2.0), [None]) == (None, [Sleep(2.0)])
