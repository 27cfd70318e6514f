from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from server_reference.api.errors import ApiError
from server_reference.gateway.limits import Admission, DisconnectedError, read_body


def body_of(*messages, headers=None, limit=10):
    """Read a body that comes as `messages`: bytes, or `None` for a client that goes away."""
    left = list(messages)

    async def receive():
        part = left.pop(0)
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    return asyncio.run(read_body(receive, headers or {}, limit=limit)), left


def test_a_body_in_parts_is_put_together():
    assert body_of(b"ab", b"", b"cd") == (b"abcd", [])


def test_a_body_of_the_limit_is_read():
    assert body_of(b"0123456789")[0] == b"0123456789"


@pytest.mark.parametrize(
    ("parts", "headers"),
    [
        pytest.param([b"0123456789a"], {}, id="in-one-part"),
        pytest.param([b"01234", b"56789", b"a"], {}, id="in-parts"),
        pytest.param([b"0123456789a"], {"content-length": "11"}, id="declared"),
        pytest.param([b"0123456789a"], {"content-length": "9" * 5000}, id="beyond-any-number"),
    ],
)
def test_a_longer_one_is_413_once_its_sender_is_done(parts, headers):
    """Else the sender sees a reset connection instead of the refusal."""
    taken = []

    async def receive():
        taken.append(parts[len(taken)])
        return {
            "type": "http.request",
            "body": taken[-1],
            "more_body": len(taken) < len(parts),
        }

    with pytest.raises(ApiError) as refused:
        asyncio.run(read_body(receive, headers, limit=10))

    assert refused.value.status("openai") == 413
    assert "10 bytes" in refused.value.message


def test_an_endless_one_is_not_read_for_ever():
    async def receive():
        return {"type": "http.request", "body": b"x" * 10, "more_body": True}

    with pytest.raises(ApiError):
        asyncio.run(read_body(receive, {}, limit=10))


def test_a_sender_that_falls_silent_is_told_and_not_waited_for():
    async def receive():
        await asyncio.Event().wait()

    with pytest.raises(ApiError, match=r"nothing came for 0\.01 s after 0 bytes") as refused:
        asyncio.run(read_body(receive, {}, limit=10, silence=0.01))

    assert refused.value.status("anthropic") == 408


def test_a_client_that_goes_away_before_the_end_is_noticed():
    with pytest.raises(DisconnectedError):
        body_of(b"ab", None)


def test_requests_beyond_those_that_run_and_wait_are_refused():
    admission = Admission(max_running=2, max_queued=1)
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(admission.admitted(None))

        with pytest.raises(ApiError) as refused, admission.admitted(None):
            pass

    assert refused.value.status("openai") == 429
    assert refused.value.retry_after == 1


def test_a_tenant_below_its_share_is_let_in_where_another_has_taken_all_places(replica):
    """Else whoever asks again and again keeps everyone out."""
    admission = Admission(max_running=2, max_queued=2)
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(admission.admitted(None, tenant="bob"))

        for _ in range(3):
            held.enter_context(admission.admitted(replica.stats, tenant="ann"))
        for tenant in ["ann", "bob"]:
            with pytest.raises(ApiError), admission.admitted(replica.stats, tenant=tenant):
                pass


def test_a_place_is_free_again_when_its_request_ends():
    admission = Admission(max_running=1, max_queued=1)

    for _ in range(5):
        with admission.admitted(None):
            pass


def test_those_that_wait_while_there_is_a_place_for_them_are_let_in(replica):
    """They wait for a prefix that another computes, say; the engine knows who is too many."""
    admission = Admission(max_running=100, max_queued=4)
    replica.num_queued = 4

    with admission.admitted(replica.stats):
        pass


@pytest.mark.parametrize(
    ("waited", "told"),
    [
        pytest.param(0.0, 1, id="at-least-a-second"),
        pytest.param(7.2, 8, id="as-the-last-one-waited"),
        pytest.param(500.0, 60, id="at-most-a-minute"),
    ],
)
def test_the_refused_are_told_when_to_come_back(waited, told):
    admission = Admission(max_running=1, max_queued=0)
    admission.waited(waited, behind=0)

    with (
        admission.admitted(None),
        pytest.raises(ApiError) as refused,
        admission.admitted(None),
    ):
        pass

    assert refused.value.retry_after == told


def test_prompts_that_wait_may_be_too_long_together(replica):
    admission = Admission(max_running=100, max_queued=100, max_queued_tokens=1000)
    replica.num_queued_tokens = 1000

    wait = pytest.raises(ApiError, match="1,000 tokens of prompts wait already")
    with wait as refused, admission.admitted(replica.stats):
        pass

    assert refused.value.kind == "rate_limited"


def test_several_answers_take_several_places():
    admission = Admission(max_running=3, max_queued=1)

    with (
        admission.admitted(None, num_sequences=3),
        pytest.raises(ApiError) as refused,
        admission.admitted(None, num_sequences=2),
    ):
        pass

    assert refused.value.kind == "rate_limited"


def test_more_answers_than_places_can_never_be_made():
    admission = Admission(max_running=3, max_queued=1)

    too_many = pytest.raises(ApiError, match="5 answers are more than the 4")
    with too_many as refused, admission.admitted(None, num_sequences=5):
        pass

    assert (refused.value.kind, refused.value.param) == ("invalid", "n")


def test_the_wait_is_estimated_from_the_prompts_before(replica):
    admission = Admission(max_running=1, max_queued=1)
    admission.waited(1.0, behind=100)
    admission.waited(3.0, behind=100)
    replica.num_queued_tokens = 1000

    assert admission.refusal(replica.stats).retry_after == 20


def test_a_wait_behind_nothing_teaches_no_rate(replica):
    admission = Admission(max_running=1, max_queued=1)
    admission.waited(1.0, behind=0)
    replica.num_queued_tokens = 1000

    assert admission.refusal(replica.stats).retry_after == 1
