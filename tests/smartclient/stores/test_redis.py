"""The Redis store against a real redis-server: the contract of all stores, and its own."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time

import pytest
import redis
import trustme
from redis.cluster import key_slot

from smartclient.stores import Account, Reserve, StoreError
from smartclient.stores.redis import RedisStore
from tests.smartclient.stores.contract import (
    AT,
    StoreContract,
    account,
    balance,
    read,
    reserve,
    settle,
    tokens,
)
from tests.smartclient.stores.redis_server import RedisServer, free_port

pytestmark = pytest.mark.redis


class TestByUrl(StoreContract):
    pass


class TestByClient(StoreContract):
    @pytest.fixture
    def store(self, shared_redis, prefix):
        with redis.Redis(port=shared_redis.port, decode_responses=True) as client:
            store = RedisStore(client, prefix=prefix)
            yield store
            store.close()


@pytest.fixture
def client(shared_redis):
    with shared_redis.client(decode_responses=True) as client:
        yield client


def keys_of(client, prefix):
    return sorted(client.scan_iter(f"{{{prefix}}}:*"))


def connected(client):
    """How many others are."""
    return len(client.client_list()) - 1


def test_stores_of_one_prefix_share_their_accounts(shared_redis, store, prefix):
    store.do(reserve(60, account()))

    other, apart = (RedisStore(shared_redis.url, prefix=one) for one in (prefix, prefix + "x"))

    assert read(other, account()) == (balance(held=60),)
    assert read(apart, account()) == (balance(),)


def test_all_keys_lie_on_one_node_of_a_cluster(store, client, prefix):
    store.do(reserve(60, account("a{b}"), account("c"), id="{d}"))

    assert len({key_slot(key.encode()) for key in keys_of(client, prefix)}) == 1


def test_an_account_ends_after_its_window(store, client, prefix):
    """By the time of whoever asks: the clock of Redis may be another."""
    ends = Account("minute", expires=AT + 60)

    store.do(Reserve((ends, account("ever")), tokens(1), AT))

    assert 60_000 < client.pttl(f"{{{prefix}}}:account:minute") <= 120_000
    assert client.ttl(f"{{{prefix}}}:account:ever") == -1


def test_calls_are_forgotten_after_a_while(store, client, prefix):
    store.do(reserve(60, account(), id="a"))
    store.do(reserve(60, account()))
    store.do(settle("a", account(), held=60))

    lives = [client.ttl(key) for key in keys_of(client, prefix) if ":call:" in key]

    assert len(lives) == 2
    assert all(0 < life <= 900 for life in lives)


def test_forgotten_scripts_are_sent_again(store, client):
    store.do(reserve(60, account()))
    client.script_flush()

    assert read(store, account()) == (balance(held=60),)


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        pytest.param(("SET", "x"), "holds something else than an account", id="text"),
        pytest.param(("LPUSH", "x"), "wrong kind of value", id="list"),
    ],
)
def test_a_key_of_somebody_else_is_refused(store, client, prefix, theirs, message):
    client.execute_command(theirs[0], f"{{{prefix}}}:account:theirs", theirs[1])

    with pytest.raises(StoreError, match=f"refuses: .*{message}") as caught:
        store.do(reserve(1, account(), account("theirs")))

    assert not caught.value.maybe_done
    assert read(store, account()) == (balance(),)


def test_connections_that_the_server_closed_are_replaced(store, client):
    store.do(reserve(1, account()))
    client.client_kill_filter(_type="normal", skipme=True)

    assert store.do(reserve(1, account())).balances == (balance(held=2),)


def test_those_of_a_loop_too(store, client):
    async def run():
        await store.do_async(reserve(1, account()))
        client.client_kill_filter(_type="normal", skipme=True)
        return await store.do_async(reserve(1, account()))

    assert asyncio.run(run()).balances == (balance(held=2),)


def test_many_tasks_share_a_few_connections(shared_redis, prefix, client):
    store = RedisStore(shared_redis.url, prefix=prefix, connections=2)
    before = connected(client)

    async def run():
        await asyncio.gather(*[store.do_async(reserve(1, account())) for _ in range(50)])
        return connected(client)

    assert asyncio.run(run()) - before == 2
    assert read(store, account()) == (balance(held=50),)


def test_the_connections_of_a_loop_end_with_it(store, client):
    before = connected(client)

    asyncio.run(store.do_async(reserve(1, account())))

    assert connected(client) == before


def test_loops_of_threads_have_connections_of_their_own(store):
    def work():
        for _ in range(3):
            asyncio.run(store.do_async(reserve(1, account())))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert read(store, account()) == (balance(held=12),)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_and_its_parent_count_together(store):
    store.do(reserve(1, account(tokens=3)))

    child = os.fork()
    if child == 0:
        os._exit(store.do(reserve(1, account(tokens=3))).short is not None)
    _, status = os.waitpid(child, 0)

    assert status == 0
    assert store.do(reserve(1, account(tokens=3))).short is None
    assert read(store, account()) == (balance(held=3),)


def test_a_redis_without_memory_is_an_error_and_changes_nothing(own_redis):
    store = RedisStore(own_redis.url)
    with own_redis.client() as client:
        client.config_set("maxmemory", 1)

        with pytest.raises(StoreError, match="raise its maxmemory") as caught:
            store.do(reserve(1, account("a"), account("b")))

        client.config_set("maxmemory", 0)
    assert not caught.value.maybe_done
    assert read(store, account("a"), account("b")) == (balance(), balance())


def test_a_password_is_used_and_never_shown(own_redis):
    with own_redis.client() as client:
        client.config_set("requirepass", "open/sesame")
    at = f"127.0.0.1:{own_redis.port}"
    store = RedisStore(f"redis://:open%2Fsesame@{at}/0")
    wrong = RedisStore(f"redis://:mallory@{at}/0")

    with pytest.raises(StoreError, match="look at the user and the password") as caught:
        wrong.do(reserve(1, account()))

    assert store.do(reserve(1, account())).short is None
    assert "mallory" not in f"{caught.value!r} {caught.value.__cause__!r} {wrong!r}"
    assert repr(store) == f"RedisStore('redis at {at}', prefix='smartclient')"


@pytest.fixture
def cluster(shared_redis, tmp_path):
    """One node, which has all slots."""
    bus = ["--cluster-port", str(free_port())]
    server = RedisServer(tmp_path, "--cluster-enabled", "yes", *bus)
    deadline = time.monotonic() + 20
    with server.client() as node:
        node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        while node.cluster("INFO")["cluster_state"] != "ok":
            assert time.monotonic() < deadline
            time.sleep(0.01)
    yield server
    server.stop()


def test_a_cluster_is_asked_by_its_client(cluster):
    with redis.RedisCluster("127.0.0.1", cluster.port) as client:
        store = RedisStore(client)
        both = account("a"), account("b")

        assert store.do(reserve(60, *both)).short is None
        assert asyncio.run(store.do_async(settle("a", *both, held=60))) == (balance(), balance())
        store.close()


def test_tls_is_spoken_where_the_url_says_so(shared_redis, tmp_path):
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert")
    authority.cert_pem.write_to_path(tmp_path / "ca")
    port, (key, cert, ca) = free_port(), (tmp_path / name for name in ("key", "cert", "ca"))
    tls = ["--tls-port", str(port), "--tls-key-file", str(key), "--tls-cert-file", str(cert)]
    server = RedisServer(tmp_path, *tls, "--tls-ca-cert-file", str(ca), "--tls-auth-clients", "no")
    try:
        trusting = RedisStore(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={ca}")
        wary = RedisStore(f"rediss://127.0.0.1:{port}/0")

        assert trusting.do(reserve(1, account())).short is None
        assert asyncio.run(trusting.do_async(reserve(1, account()))).short is None
        gc.collect()  # a transport that was left open would warn
        with pytest.raises(StoreError, match="certificate verify failed"):
            wary.do(reserve(1, account()))
        trusting.close()
    finally:
        server.stop()


SECRET = "redis://:pa/ss@host:6379"


@pytest.mark.parametrize("source", ["", "host:6379", "http://host", SECRET, "redis://h?color=red"])
def test_what_is_no_url_is_refused_without_showing_it(source):
    with pytest.raises(ValueError, match="source must be a URL such as redis://user") as caught:
        RedisStore(source)

    assert "pa/ss" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        pytest.param({"source": 3}, TypeError, "source must be a URL", id="no-source"),
        pytest.param({"prefix": "a{b}"}, ValueError, "text without braces", id="prefix-braces"),
        pytest.param({"prefix": ""}, ValueError, "text without braces", id="prefix-empty"),
        pytest.param({"prefix": 3}, TypeError, "prefix must be text", id="prefix-number"),
        pytest.param({"timeout": 0}, ValueError, "timeout must be above 0 s", id="timeout"),
        pytest.param({"timeout": "1"}, TypeError, "timeout must be seconds", id="timeout-text"),
        pytest.param({"connections": 0}, ValueError, "must be at least 1", id="connections"),
        pytest.param({"connections": 1.5}, TypeError, "a whole number", id="connections-half"),
        pytest.param({"remember": -1}, ValueError, "remember must be above 0 s", id="remember"),
    ],
)
def test_options_that_cannot_be_are_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        RedisStore(**({"source": "redis://host"} | options))


class Slow:
    """A connection that answers when it is let."""

    entered, let = threading.Event(), threading.Event()

    def __init__(self, **options):
        self.options = options

    def connect(self):
        pass

    disconnect = connect

    def send_command(self, *parts):
        pass

    def read_response(self):
        self.entered.set()
        self.let.wait(20)
        return b"0 0 0 0 0 0"


def test_all_connections_in_use_is_an_error_that_says_so():
    client = redis.Redis(connection_pool=redis.ConnectionPool(connection_class=Slow))
    store = RedisStore(client, timeout=0.05, connections=1)
    thread = threading.Thread(target=read, args=[store, account()])
    thread.start()
    assert Slow.entered.wait(20)

    with pytest.raises(
        StoreError, match=r"all 1 connections to redis at .* were in use for 0\.05 s"
    ):
        read(store, account())

    Slow.let.set()
    thread.join()


def test_an_asyncio_client_is_refused():
    """It belongs to one loop; a store serves them all, and threads."""
    client = redis.asyncio.Redis()

    with pytest.raises(TypeError, match="a blocking client of the package redis, not Redis"):
        RedisStore(client)
