"""The Redis store when Redis is away, silent or killed, and when callers are cancelled."""

from __future__ import annotations

import asyncio

import pytest

from smartclient.stores import Read, StoreError
from smartclient.stores.redis import RedisStore
from smartclient.stores.redis_scripts import Writer
from tests.smartclient.stores.contract import AT, account, balance, read, reserve, settle
from tests.smartclient.stores.redis_server import free_port

pytestmark = pytest.mark.redis


@pytest.fixture
def impatient(own_redis):
    store = RedisStore(own_redis.url, timeout=0.2)
    yield store
    store.close()


async def in_thread(store, operation):
    return await asyncio.to_thread(store.do, operation)


async def on_loop(store, operation):
    return await store.do_async(operation)


both_ways = pytest.mark.parametrize("ask", [in_thread, on_loop])


def failing(store, operation, ask):
    with pytest.raises(StoreError) as caught:
        asyncio.run(ask(store, operation))
    return caught.value


@both_ways
def test_nothing_is_done_where_no_redis_is(ask):
    store = RedisStore(f"redis://127.0.0.1:{free_port()}")

    error = failing(store, reserve(1, account()), ask)

    assert "cannot be reached" in str(error)
    assert not error.maybe_done


@both_ways
def test_a_redis_that_comes_back_is_used_again(impatient, own_redis, ask):
    asyncio.run(ask(impatient, reserve(1, account())))
    own_redis.kill()
    assert "Error 111 connecting" in str(failing(impatient, reserve(1, account()), ask))

    own_redis.start()

    assert asyncio.run(ask(impatient, reserve(1, account()))).balances == (balance(held=1),)


@both_ways
def test_a_settlement_that_could_not_be_sent_is_sent_later(impatient, own_redis, ask):
    own_redis.kill()
    failing(impatient, settle("a", account(), spent=5), ask)
    told = impatient.changed()

    own_redis.start()

    assert told.wait(10)
    assert read(impatient, account()) == (balance(spent=5),)


@both_ways
def test_a_silent_redis_is_an_error_after_the_timeout(impatient, own_redis, ask):
    asyncio.run(ask(impatient, reserve(1, account())))
    own_redis.freeze()

    error = failing(impatient, reserve(1, account()), ask)

    assert "nothing came within 0.2 s" in str(error)


@both_ways
def test_a_reservation_whose_answer_was_lost_holds_nothing(impatient, own_redis, ask):
    """Redis does what it was sent once it wakes up; then it is told to undo it."""
    impatient.do(reserve(1, account()))
    own_redis.freeze()
    error = failing(impatient, reserve(60, account()), in_thread)
    told = impatient.changed()

    own_redis.thaw()

    assert error.maybe_done
    assert told.wait(10)
    assert read(impatient, account()) == (balance(held=1),)


def test_what_may_have_been_done_before_a_vain_second_try_is_said(impatient, own_redis):
    """The connection that was kept broke after the write, and no new one came."""
    impatient.do(reserve(1, account()))
    own_redis.kill()

    assert failing(impatient, reserve(1, account()), in_thread).maybe_done


def test_a_settlement_whose_answer_was_lost_counts_once(impatient, own_redis):
    impatient.do(reserve(60, account()))
    own_redis.freeze()
    error = failing(impatient, settle("a", account(), held=60, spent=5), in_thread)
    told = impatient.changed()

    own_redis.thaw()

    assert error.maybe_done
    assert told.wait(10)
    assert impatient.do(settle("a", account(), held=60, spent=5)) == (balance(spent=5),)


async def cancelled_while_silent(store, redis, operation):
    await store.do_async(Read((), AT))
    redis.freeze()
    task = asyncio.create_task(store.do_async(operation))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


def test_a_cancelled_reservation_holds_nothing(impatient, own_redis):
    told = impatient.changed()

    asyncio.run(cancelled_while_silent(impatient, own_redis, reserve(60, account())))
    own_redis.thaw()

    assert told.wait(10)
    assert read(impatient, account()) == (balance(),)


def test_a_cancelled_settlement_counts_once(impatient, own_redis):
    told = impatient.changed()

    asyncio.run(cancelled_while_silent(impatient, own_redis, settle("a", account(), spent=5)))
    own_redis.thaw()

    assert told.wait(10)
    assert read(impatient, account()) == (balance(spent=5),)


def test_giving_back_waits_for_redis_too(impatient, own_redis):
    taken = reserve(60, account(), id="a")
    impatient.do(taken)
    own_redis.freeze()
    told = impatient.changed()
    impatient._undo(taken)

    own_redis.thaw()

    assert told.wait(10)
    assert read(impatient, account()) == (balance(),)


def test_a_reservation_that_comes_after_it_was_undone_holds_nothing(store, shared_redis, prefix):
    """The network may carry the second before the first."""
    late, writer = reserve(60, account(), id="a"), Writer(prefix, remember=900)
    undo = writer.undo(late)

    with shared_redis.client() as client:
        client.eval(undo.script.text, len(undo.keys), *undo.keys, undo.numbers)
    store.do(late)

    assert read(store, account()) == (balance(),)


def test_a_call_that_went_on_though_its_reservation_was_undone_is_charged(store, prefix):
    """A policy may let calls pass while the store is away."""
    asked = reserve(60, account(), id="a")
    store.do(reserve(30, account(), id="b"))
    store.do(asked)
    store._undo(asked)

    assert store.do(settle("a", account(), held=60, spent=7)) == (balance(spent=7, held=30),)
