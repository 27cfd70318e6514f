"""No call goes on after the deadline of its scope."""

from __future__ import annotations

from time import monotonic

import msgspec
import pytest

from smartclient._call import Timeout, Trace
from smartclient._errors import ExchangeError
from smartclient._flow import exchange
from smartclient._scope import Scope
from smartclient.policies.deadline import Deadlines
from smartclient.testing import ManualClock, a_call, a_reply, play


def sent(*, deadline, total=None, clock_at=100.0, started=90.0):
    """The call that is sent, of one that began some seconds ago by the client's clock."""
    call = msgspec.structs.replace(
        a_call(),
        trace=Trace(started=started),
        timeout=Timeout(total=total),
        scope=None if deadline is None else Scope(deadline=monotonic() + deadline),
    )
    policy = Deadlines(clock=ManualClock(clock_at))
    _, (effect,) = play(policy.flow(call, exchange), [a_reply()])
    return effect.call


def test_what_is_left_bounds_the_whole_call():
    """A clock of a test stands where it likes; the deadline is real time."""
    total = sent(deadline=5.0).timeout.total

    assert total == pytest.approx(15.0, abs=0.5)  # from its start, ten seconds ago


@pytest.mark.parametrize(
    ("deadline", "total"),
    [
        pytest.param(None, None, id="no-deadline"),
        pytest.param(None, 7.0, id="a-limit-alone"),
        pytest.param(5.0, 12.0, id="a-nearer-limit"),
    ],
)
def test_the_calls_own_limit_stays(deadline, total):
    assert sent(deadline=deadline, total=total).timeout.total == total


def test_a_later_limit_gives_way():
    assert sent(deadline=5.0, total=60.0).timeout.total < 16.0


def test_a_call_that_begins_too_late_is_not_sent():
    with pytest.raises(ExchangeError, match="not sent: the deadline of its") as caught:
        sent(deadline=-2.0)

    assert (caught.value.kind, caught.value.sent) == ("total_timeout", "nothing")
    assert "passed 2.0 s before the call began" in str(caught.value)
