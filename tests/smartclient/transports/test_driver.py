"""The two loops, and what they do for each effect."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import weakref
from collections import deque

import pytest

from smartclient._call import Headers, Span, Trace
from smartclient._errors import ExchangeError
from smartclient._flow import Outcome, close, exchange, peek, read, sleep
from smartclient.testing import ManualClock, a_call
from smartclient.transports.driver import (
    AsyncConnector,
    AsyncPerformer,
    Connector,
    Performer,
    drive,
)
from smartclient.transports.intake import MAX_ERROR_BODY, MAX_PEEK
from tests.smartclient.fakes import (
    MESSAGE,
    OVERLOAD,
    START,
    STOP,
    Answer,
    AsyncProvider,
    Provider,
    a_stream,
    text,
)


def refused():
    return ExchangeError("refused", kind="connect")


class Ending:
    """A tap that keeps how the body ended."""

    def __init__(self, outcomes) -> None:
        self._outcomes = outcomes

    def feed(self, delta, at): ...

    def comment(self, text): ...

    def after(self, outcome):
        self._outcomes.append(outcome)
        yield from ()


def run(world, flow, *answers, **changes):
    """The result of `flow`, and the provider that it called."""
    provider = world.provider(*answers)
    return world.do(world.performer(provider, **changes).run(flow)), provider


def sent_and(step):
    """A flow: exchange, then `step` with the reply; both results."""

    def flow():
        reply = yield from exchange(a_call())
        return reply, (yield from step(reply))

    return flow()


def test_both_performers_have_the_same_methods_in_the_same_order():
    def methods(kind):
        own = {name: part for name, part in vars(kind).items() if inspect.isfunction(part)}
        return [(name, list(inspect.signature(part).parameters)) for name, part in own.items()]

    assert methods(Performer) == methods(AsyncPerformer)
    assert methods(Connector)[0] == methods(AsyncConnector)[0]


def test_an_exchange_answers_with_a_reply_whose_body_is_unread(world):
    call = a_call()

    reply, provider = run(world, exchange(call), Answer(MESSAGE, status=203, x_a="b"))

    assert provider.calls == [call]
    assert (reply.status, reply.reason, reply.protocol) == (203, "As You Like", "HTTP/1.1")
    assert (reply.headers.get("x-a"), reply.call) == ("b", call)
    assert provider.responses[0].num_reads == 0


def test_each_exchange_is_an_attempt_in_the_record(world):
    trace, clock = Trace(started=0.0), ManualClock(3.0)

    def flow():
        try:
            yield from exchange(a_call())
        except ExchangeError:
            clock.advance(2.0)
        return (yield from exchange(a_call()))

    run(
        world,
        flow(),
        ExchangeError("x", kind="closed", sent="all"),
        Answer(),
        trace=trace,
        clock=clock,
    )

    first, second = trace.attempts
    assert (first.number, first.error, first.maybe_processed) == (1, "closed", True)
    assert (first.started, first.ended, first.status) == (3.0, 3.0, None)
    assert (second.number, second.status, second.started) == (2, 200, 5.0)
    assert trace.prepared == 3.0


def test_a_wait_is_recorded(world):
    trace, clock = Trace(started=0.0), ManualClock(1.0)

    run(world, sleep(2.5), trace=trace, clock=clock)

    assert clock.slept == [2.5]
    assert trace.backoffs == (Span(1.0, 3.5),)


def test_a_read_brings_the_whole_body(world):
    (_, body), _ = run(world, sent_and(lambda r: read(r, limit=100)), Answer(b"ab", b"cd"))

    assert body == b"abcd"


def test_a_read_undoes_the_encoding(world):
    answer = Answer(gzip.compress(b"abcd"), content_encoding="gzip")

    (_, body), _ = run(world, sent_and(lambda r: read(r, limit=100)), answer)

    assert body == b"abcd"


@pytest.mark.parametrize("missing", [1, 8, 12], ids=["a-byte", "the-checksum", "more"])
def test_a_read_of_a_gzip_without_its_end_is_no_whole_body(world, missing):
    answer = Answer(gzip.compress(b"abcd")[:-missing], content_encoding="gzip")

    with pytest.raises(ExchangeError, match="may be cut"):
        run(world, sent_and(lambda r: read(r, limit=100)), answer)


def test_encodings_on_lines_of_their_own_are_all_undone(world):
    answer = Answer(gzip.compress(gzip.compress(b"abcd")), content_encoding="gzip")
    answer.headers = Headers([*answer.headers, ("content-encoding", "gzip")])

    (_, body), _ = run(world, sent_and(lambda r: read(r, limit=100)), answer)

    assert body == b"abcd"


def test_an_empty_body_has_no_encoding_to_end(world):
    (_, body), _ = run(world, sent_and(lambda r: read(r, limit=4)), Answer(content_encoding="gzip"))

    assert body == b""


def test_a_body_of_exactly_the_limit_is_read(world):
    (_, body), _ = run(world, sent_and(lambda r: read(r, limit=4)), Answer(b"abcd"))

    assert body == b"abcd"


@pytest.mark.parametrize(
    ("pieces", "headers", "message"),
    [
        pytest.param([b"abcd", b"e"], {}, "longer than the 4 bytes", id="too-long"),
        pytest.param([gzip.compress(b"x" * 99)], {"content_encoding": "gzip"}, "longer", id="bomb"),
        pytest.param(
            [b"ab"], {"content_encoding": "rot13"}, "content-encoding 'rot13'", id="encoding"
        ),
        pytest.param([b"ab"], {"content_encoding": "gzip"}, "does a proxy", id="broken-gzip"),
    ],
)
def test_a_read_that_cannot_be_cuts_the_reply(world, pieces, headers, message):
    provider = world.provider(Answer(*pieces, **headers))
    flow = sent_and(lambda reply: read(reply, limit=4))

    with pytest.raises(ExchangeError, match=message):
        world.do(world.performer(provider).run(flow))

    assert provider.responses[0].num_cuts >= 1


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        pytest.param({}, "limit", id="too-long"),
        pytest.param({"content_encoding": "rot13"}, "protocol", id="encoding"),
        pytest.param({"content_encoding": "gzip"}, "protocol", id="broken-gzip"),
    ],
)
def test_a_read_that_cannot_be_is_told_as_failed_at_once(world, headers, kind):
    trace, leftovers, outcomes = Trace(started=0.0), deque(), []
    performer = world.performer(
        world.provider(Answer(b"abcde", **headers)), trace=trace, leftovers=leftovers
    )

    def flow():
        reply = yield from exchange(a_call())
        reply.taps.append(Ending(outcomes))
        yield from read(reply, limit=4)

    with pytest.raises(ExchangeError):
        world.do(performer.run(flow()))

    assert outcomes == [Outcome("failed", 0.0, kind)]
    assert (trace.attempts[0].error, list(leftovers)) == (kind, [])


def test_a_close_gives_the_connection_back(world):
    _, provider = run(world, sent_and(close), a_stream(START))

    assert provider.responses[0].closed == [False]


def test_a_peek_reads_a_stream_up_to_its_first_content(world):
    answer = a_stream(START, text("Pa"), text("ris"), STOP)

    (reply, failure), provider = run(world, sent_and(peek), answer)

    assert failure is None
    assert provider.responses[0].num_reads == 2
    assert world.do(reply.handle.next()).data == START


def test_a_peek_finds_the_error_of_a_stream(world):
    (_, failure), _ = run(world, sent_and(peek), a_stream(START, OVERLOAD))

    assert failure.type == "overloaded_error"


def test_a_peek_of_a_stream_that_ends_at_once_says_so(world):
    (_, failure), _ = run(world, sent_and(peek), a_stream())

    assert failure.kind == "incomplete"


def test_a_peek_leaves_a_success_that_is_no_stream_unread(world):
    (_, failure), provider = run(world, sent_and(peek), Answer(MESSAGE))

    assert failure is None
    assert provider.responses[0].num_reads == 0


def test_a_peek_holds_at_most_a_mebibyte(world):
    ping = b": still thinking\n\n" * 4096
    answer = a_stream(*[ping] * 100)

    (reply, failure), provider = run(world, sent_and(peek), answer)

    assert failure is None
    assert provider.responses[0].num_reads == MAX_PEEK // len(ping) + 1
    assert sum(len(chunk.data) for chunk in reply.handle.intake.held) > MAX_PEEK


def test_a_peek_at_an_error_reads_its_body_within_a_bound(world):
    answer = Answer(*[b" " * 16_384] * 9, status=500)

    (_, failure), provider = run(world, sent_and(peek), answer)

    assert failure.kind == "server"
    assert provider.responses[0].num_reads == MAX_ERROR_BODY // 16_384


def test_a_peek_at_an_error_tells_its_name(world):
    answer = Answer(b'{"error": {"type": "billing_error", "message": "pay"}}', status=429)

    (_, failure), _ = run(world, sent_and(peek), answer)

    assert (failure.kind, failure.is_transient) == ("money", False)


@pytest.mark.parametrize(
    "error",
    [refused(), KeyboardInterrupt(), asyncio.CancelledError()],
    ids=["refused", "^c", "cancel"],
)
def test_what_an_effect_raises_is_raised_in_the_flow(world, error):
    seen = []

    def flow():
        try:
            yield from exchange(a_call())
        except BaseException as raised:
            seen.append(raised)
            raise

    with pytest.raises(type(error)):
        run(world, flow(), error)

    assert seen == [error]


def test_a_flow_that_catches_goes_on(world):
    def flow():
        try:
            yield from exchange(a_call())
        except ExchangeError:
            return "caught"

    assert run(world, flow(), refused())[0] == "caught"


def test_a_flow_that_asks_for_nothing_is_run():
    def flow():
        yield from ()
        return 7

    assert drive(flow(), lambda effect: None) == 7


def a_flow_that_peeks():
    reply = yield from exchange(a_call())
    yield from peek(reply)


@pytest.mark.usefixtures("no_collector")
def test_a_failed_call_is_freed_at_once():
    """Its error holds the frames it went through, and so up to 1 MiB of a reply."""
    provider = Provider(a_stream(START, refused()))

    with pytest.raises(ExchangeError) as caught:
        Performer(provider, Trace(started=0.0), ManualClock(), deque()).run(a_flow_that_peeks())
    error = weakref.ref(caught.value)
    del caught

    assert error() is None


@pytest.mark.usefixtures("no_collector")
def test_a_failed_call_is_freed_at_once_when_awaited():
    async def fail():
        provider = AsyncProvider(a_stream(START, refused()))
        performer = AsyncPerformer(provider, Trace(started=0.0), ManualClock(), deque())
        with pytest.raises(ExchangeError) as caught:
            await performer.run(a_flow_that_peeks())
        error = weakref.ref(caught.value)
        del caught
        return error

    async def main():
        error = await fail()
        return error()

    assert asyncio.run(main()) is None


def test_an_attempt_that_was_left_has_an_end(world):
    clock, trace = ManualClock(7.0), Trace(started=0.0)
    performer = world.performer(world.provider(KeyboardInterrupt()), clock=clock, trace=trace)

    with pytest.raises(KeyboardInterrupt):
        world.do(performer.exchange(a_call()))

    assert trace.attempts[0].ended == 7.0
