"""A whole scripted server in a thread of its caller."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import WeakSet

from .conditions import Conditions
from .config import ScriptedConfig
from .door import Door, Fronts
from .hooks import Connection, Service
from .http1 import Http1
from .judged import Judged
from .rules import Rule, RuleBook, Rules, rule, rules_of
from .service import ScriptedService
from .then import Then
from .tls import authority_of, context_of
from .watch import Watch

if TYPE_CHECKING:
    from .providers import Behaviour

__all__ = ["ScriptedServer", "scripted"]

_NO_KEY = "no-key-needed"
_BACKLOG = 1024
_ACCEPT_TURNS = 4  # of the loop, until a connection that was accepted is known
_STOP_SECONDS = 5.0

_running: WeakSet[ScriptedServer] = WeakSet()  # what a fork copies; nothing else asks


class ScriptedServer(Judged):
    """A running scripted server. Use it as a context manager, or call `stop`.

    Args:
        rules: See `rules_of`.
        config: Everything else.

    Attributes:
        base_url: `http://127.0.0.1:PORT`, without `/v1`.
        api_key: The first key that is let in; any text does while none is configured.
        rules: The rules, and how often each was played.
        clock: The server's time.
        ca_file: Path of the authority to trust, when `tls` is `True` or an `Authority`.
    """

    def __init__(self, rules: Rules = (), config: ScriptedConfig | None = None) -> None:
        config = config or ScriptedConfig()
        watch = Watch(config.clock, max_entries=config.journal_entries)
        super().__init__(watch, self.call_soon)
        self.rules = RuleBook(rules_of(rules))
        self.clock = config.clock
        self._config = config
        state = _provider_state(config)
        self._service = ScriptedService(
            self.rules,
            clock=config.clock,
            seed=config.seed,
            api_keys=config.api_keys,
            providers=[*state, *config.providers],
            observers=[watch, *state, *config.observers],
            faults=config.faults,
            retry_after_ms=config.retry_after_ms,
        )
        self._transports: WeakSet[asyncio.Transport] = WeakSet()
        http1 = partial(Http1, max_body_bytes=config.max_body_bytes)
        self._fronts = Fronts(http1, partial(_http2, config) if config.http2 else None)
        authority = authority_of(config.tls)
        self._authority = authority  # its file lives as long as it does
        self.ca_file = None if authority is None else authority.ca_file
        self._tls = context_of(config.tls, authority, host=config.host, http2=config.http2)
        self._listener = _listen(config.host, config.port)
        self.base_url = _url(self._listener, "http" if self._tls is None else "https")
        self.api_key = next(iter(config.api_keys), _NO_KEY)
        self._is_inherited = False
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="server_reference", daemon=True)

    @property
    def port(self) -> int:
        return int(self.base_url.rpartition(":")[2])

    def start(self) -> Self:
        """Take requests from now on."""
        self._thread.start()
        _running.add(self)
        return self

    def stop(self) -> None:
        """Abort every connection and end, within a few seconds. Calling it again does nothing."""
        if self._is_inherited:  # the parent's thread is not here
            return
        if self._thread.ident is None:  # was never started
            self._listener.close()
            self._loop.close()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has stopped
            self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread is not threading.current_thread():
            self._thread.join(_STOP_SECONDS)

    def _let_go(self) -> None:
        """In a forked child: hold no socket of the parent's, which would keep its FIN back."""
        self._is_inherited = True
        sockets = [one.get_extra_info("socket").fileno() for one in list(self._transports)]
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (self._listener.fileno(), *sockets):
            if number >= 0:
                os.dup2(nothing, number, inheritable=False)  # its object will close it once more
        os.close(nothing)

    def on(
        self,
        then: Then,
        *,
        times: int | None = None,
        name: str | None = None,
        **conditions: Unpack[Conditions],
    ) -> Rule:
        """Add a rule after the others; it takes what `rule` takes."""
        added = rule(then, times=times, name=name, **conditions)
        self.rules.add(added)
        return added

    def reset(self) -> None:
        """Begin anew: rules from their start, limits full, no prompt kept, nothing seen.

        What is open or under way stays known.
        """
        with contextlib.suppress(RuntimeError):  # it has stopped
            self.call_soon(self._service.reset)
        self.rules.reset()
        self.forget()

    def assert_all_played(self) -> None:
        """Fail unless each rule has played all that it has, and one without an end once.

        Raises:
            AssertionError: Some have not; the message lists them.
        """
        self.settle()
        left = [one for one in self.rules.rules if self.rules.played(one) < (one.times or 1)]
        if left:
            listed = [f"  {one.name}: {self.rules.played(one)} of {one.times or 1}" for one in left]
            raise AssertionError(
                "\n".join([f"{len(left)} rules were not played to their end:", *listed])
            )

    def call_soon(self, call: Callable[[], object]) -> None:
        """Run `call` on the server's thread, where connections may be touched."""
        if threading.current_thread() is self._thread:
            call()  # a rule's function asks: nothing else can happen meanwhile
        else:
            self._loop.call_soon_threadsafe(call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _main(self) -> None:
        listening = await self._loop.create_server(
            self._door, sock=self._listener, backlog=_BACKLOG
        )
        try:
            await self._stopping.wait()
        finally:
            # No more are accepted; those that were come to be known before the server is closed,
            # since asyncio loses one that comes to a closed server.
            self._loop.remove_reader(self._listener)
            for _ in range(_ACCEPT_TURNS):
                await asyncio.sleep(0)
            listening.close()
            await self._drain()

    def _door(self) -> Door:
        connection = self._service.opened(is_tls=self._tls is not None)
        return Door(
            connection,
            self._service,
            self._fronts,
            tls=self._tls,
            greeting=self._config.greetings.get(connection.number, ()),
            made=self._transports.add,
        )

    async def _drain(self) -> None:
        """Abort what is open, and let every task end."""
        self._service.is_stopping = True
        for transport in list(self._transports):
            # asyncio breaks over one that has flushed its last bytes, closed and is still known.
            if transport.get_extra_info("socket").fileno() >= 0:
                transport.abort()
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_STOP_SECONDS / 2)
        await asyncio.sleep(0)


def scripted(rules: Rules = (), **config: Any) -> ScriptedServer:
    """Start a scripted server in a thread of its caller.

    Args:
        rules: Rules (see `rule`), or what a rule's `then` takes, for any request.
        **config: Fields of `ScriptedConfig`.

    Returns:
        The running server: `base_url`, `api_key`, `stop()`. It is a context manager too.

    Raises:
        TypeError: An option is unknown, or something cannot be played.
        ValueError: An option or a rule is wrong; the message names it.
        OSError: The port is taken.
    """
    return ScriptedServer(rules, ScriptedConfig.of(config)).start()


def _after_fork() -> None:
    for server in list(_running):
        server._let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _provider_state(config: ScriptedConfig) -> list[Behaviour]:
    """Limits and prompts that a provider keeps, when there are any to keep."""
    limits, cache = config.rate_limits, config.prompt_cache
    if limits is None and cache is None:
        return []
    from .providers import Behaviour

    return [Behaviour(config.clock, rate_limits=limits, prompt_cache=cache)]


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    # Inherited by what is accepted; asyncio sets it only on sockets whose protocol is named.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _url(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{reached}]:{port}" if ":" in reached else f"{scheme}://{reached}:{port}"


def _http2(config: ScriptedConfig, connection: Connection, service: Service) -> asyncio.Protocol:
    from .http2 import Http2  # loads h2, which few servers need

    return Http2(
        connection,
        service,
        max_body_bytes=config.max_body_bytes,
        settings=config.http2_settings,
    )
