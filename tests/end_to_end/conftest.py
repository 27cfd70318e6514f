"""Servers that really run, shared by the tests that need sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

import server_reference
from smartclient.net import blocking
from tests.end_to_end.cache_proof import Proof
from tests.end_to_end.cached_calls import Cached
from tests.end_to_end.http2_player import Watcher, player
from tests.end_to_end.http2_sides import Http2Side, http2_side
from tests.end_to_end.net_sides import Side
from tests.end_to_end.raw_http2 import RawHttp2
from tests.end_to_end.tiny_calls import ANN, BOB
from tests.end_to_end.virtual_calls import Shared

if TYPE_CHECKING:
    from server_reference.gateway.server import Server


@pytest.fixture(autouse=True)
def no_idle_connections() -> Iterator[None]:
    """Each test finds the process's pools empty, and leaves them so."""
    blocking.close_idle()
    yield
    blocking.close_idle()


@pytest.fixture(params=["blocking", "asyncio"])
def side(request: pytest.FixtureRequest) -> Side:
    """Both bodies of `smartclient.net`."""
    return Side(request.param)


@pytest.fixture(params=["blocking", "asyncio"])
def shared(request: pytest.FixtureRequest) -> Iterator[Shared]:
    """A scripted server, once it serves, and our client of either kind, on one clock."""
    both = Shared(is_async=request.param == "asyncio")
    yield both
    both.stop()


@pytest.fixture
def proof() -> Iterator[Callable[..., Proof]]:
    """Makes clients and their servers with a prompt cache, and audits them in the end."""
    made: list[Proof] = []

    def make(*args: Any, **options: Any) -> Proof:
        made.append(Proof(*args, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()
        one.audit()


@pytest.fixture(params=[True, False], ids=["alpn", "prior-knowledge"])
def h2(request: pytest.FixtureRequest, side: Side) -> Iterator[Http2Side]:
    """Both of them over HTTP/2."""
    with http2_side(side, is_tls=request.param) as speaking:
        yield speaking


@pytest.fixture(scope="session")
def logged() -> list[Mapping[str, object]]:
    """The lines of `tiny_server`'s request log."""
    return []


@pytest.fixture(scope="session")
def tiny_server(logged: list[Mapping[str, object]]) -> Iterator[Server]:
    """`tiny` with keys of two tenants, and limits low enough to be reached."""
    with server_reference.start(
        "tiny",
        api_keys={ANN: "ann", BOB: "bob"},
        num_blocks=64,
        max_num_seqs=3,
        max_queued=2,
        max_body_bytes=100_000,
        request_log=logged.append,
    ) as server:
        yield server


@pytest.fixture(scope="session")
def breakable_server() -> Iterator[Server]:
    """A server whose engine a test may stop or kill, as long as it comes back.

    Its pool holds more tokens than the model's context.
    """
    with server_reference.start("tiny", num_blocks=512) as server:
        yield server


@pytest.fixture
def watcher() -> Watcher:
    """Sees what a scripted server does over HTTP/2."""
    return Watcher()


@pytest.fixture
def play(watcher: Watcher) -> Iterator[Callable[..., RawHttp2]]:
    """Starts a scripted server that `watcher` watches, and a raw HTTP/2 client of it."""
    with player(watcher) as playing:
        yield playing


@pytest.fixture
def cached() -> Iterator[Callable[..., Cached]]:
    """Makes clients with their servers, and stops them."""
    made: list[Cached] = []

    def make(api: str = "messages", hints: Any = "cautious", **options: Any) -> Cached:
        made.append(Cached(api, hints, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()
