"""A whole server in a thread of its caller: socket, gateway, API, and the engine's process."""

from __future__ import annotations

import asyncio
import atexit
import errno
import logging
import socket
import sys
import threading
from typing import Any, Self

from hypercorn.asyncio import serve
from hypercorn.config import Config

from ..api.app import create_app
from ..checkpoints.errors import ModelFileError
from ..checkpoints.registry import FrontModel, ModelUnavailableError, front
from ..core import EngineStats
from ..processes.process import EngineProcess, EngineStartError
from ..text.chat_template import ChatTemplateError
from .app import Gateway
from .auth import AdminKey, ApiKeys
from .config import ServerConfig
from .connections import close_with_clients
from .limits import Admission
from .metering import Meter, Usage
from .pipeline import Pipeline
from .request_log import LogTarget, RequestLog
from .routing import Router

__all__ = ["Server", "ServerEndedError", "ServerStartError", "start"]

_log = logging.getLogger(__name__)

_NO_KEY = "no-key-needed"
_BACKLOG = 1024
_CLOSE_SECONDS, _STOP_SECONDS = 1.0, 10.0


class ServerStartError(RuntimeError):
    """The server could not be started; the message says why in one sentence."""


class ServerEndedError(RuntimeError):
    """The server ended without being asked to; the message says why in one sentence."""


class Server:
    """A running server. Use it as a context manager, or call `stop`.

    Attributes:
        base_url: `http://127.0.0.1:PORT`, without `/v1`.
        api_key: The first key that is let in; any text does while none is configured.
    """

    def __init__(
        self,
        config: ServerConfig,
        model: FrontModel,
        listener: socket.socket,
        *,
        keys: ApiKeys,
        admin: AdminKey,
    ) -> None:
        self.base_url = _url(listener)
        self.api_key = next(iter(config.api_keys or ()), _NO_KEY)
        self._config = config
        self._model = model
        self._listener = listener
        self._keys = keys
        self._admin = admin
        self._log = _open_log(config.request_log)
        self._meter = Meter()
        self._engine = EngineProcess(config.engine)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._drain = 0.0
        self._started = threading.Event()
        # Not the thread's own end: of a `join` that a signal interrupts, Python 3.11 believes that
        # it has succeeded (python/cpython#90882, mended in 3.13).
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="server_reference", daemon=True)

    def start(self) -> None:
        """Start, and return when requests are taken.

        Raises:
            ServerStartError: It cannot.
        """
        self._thread.start()
        atexit.register(self.stop)
        try:
            self._started.wait()
        except BaseException:
            self.stop()
            raise
        if self._failure is not None:
            self.stop()
            raise self._failure

    def wait(self) -> None:
        """Return when the server has been stopped, from another thread.

        Raises:
            ServerEndedError: It ended by itself.
        """
        self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self, *, drain: float = 1.0) -> None:
        """Stop, within a few seconds. Calling it again does nothing.

        Args:
            drain: Seconds that requests under way may still take.
        """
        atexit.unregister(self.stop)
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None and not loop.is_closed():
            self._drain = drain
            try:
                loop.call_soon_threadsafe(stopping.set)
            except RuntimeError:
                _log.debug("the server's loop was closed already")
        # In a forked process it is not there, and nothing is to be waited for.
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._ended.wait(drain + _STOP_SECONDS)

    def stats(self) -> EngineStats | None:
        """The engine's books after its latest step; `None` while it is not ready."""
        return self._engine.stats

    def notes(self) -> tuple[str, ...]:
        """What the model is computed in, and the arithmetic of the engine's memory."""
        return self._engine.notes

    def usage(self) -> dict[str, Usage]:
        """Tokens that each tenant has used."""
        return self._meter.usage()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except EngineStartError as error:
            self._failure = ServerStartError(str(error))
            self._failure.__cause__ = error
        except BaseException as error:  # the thread that waits for the start must learn of it
            self._failure = error
            if self._started.is_set():
                _log.exception("the server ended")
        finally:
            self._listener.close()
            self._log.close()
            self._started.set()
            self._ended.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        stopped = asyncio.create_task(self._stopping.wait())
        starting = asyncio.create_task(self._engine.start())
        tasks = [starting]
        try:
            await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                return
            starting.result()
            serving = asyncio.create_task(self._serve(self._stopping))
            tasks.append(serving)
            self._started.set()
            await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
            if not stopped.done():
                raise _ended(serving)
            await asyncio.wait([serving], timeout=self._drain)
            await self._engine.stop()  # requests that are left end with an error, then close
            await asyncio.wait([serving], timeout=_CLOSE_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._engine.stop()

    async def _serve(self, stopping: asyncio.Event) -> None:
        router = Router([self._engine])
        engine = self._config.engine
        admission = Admission(
            max_running=engine.max_num_seqs,
            max_queued=engine.max_queued,
            max_queued_tokens=engine.max_queued_tokens,
        )
        pipeline = Pipeline(self._model, router, admission=admission, meter=self._meter)
        # Any: hypercorn and starlette give the same ASGI types different names.
        gateway: Any = Gateway(
            create_app(pipeline),
            keys=self._keys,
            admin=self._admin,
            max_body_bytes=self._config.max_body_bytes,
            request_log=self._log,
        )
        config = _http(self._listener.detach())
        close_with_clients()
        await serve(gateway, config, shutdown_trigger=stopping.wait)


def start(config: ServerConfig) -> Server:
    """Start a server and wait until it takes requests.

    Raises:
        ServerStartError: It cannot: the port is taken, the model's file is missing or
            damaged, the KV pool is too small.
    """
    keys = ApiKeys(config.api_keys)
    admin = AdminKey(config.admin_key, api_keys=config.api_keys)
    listener = _listen(config)
    try:
        server = Server(config, _front(config.engine.model), listener, keys=keys, admin=admin)
    except BaseException:
        listener.close()
        raise
    server.start()
    return server


def _listen(config: ServerConfig) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        listener = socket.create_server((config.host, config.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"{config.host}:{config.port}"
        why = (error.strerror or str(error)).partition(" (while ")[0]
        is_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        advice = "choose another port, or 0 for a free one" if is_port else "check the host"
        raise ServerStartError(f"cannot listen on {where}: {why}; {advice}") from error
    # Inherited by what is accepted; asyncio sets it only on sockets whose protocol is named.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def _ended(serving: asyncio.Task[None]) -> ServerEndedError:
    """What to say of hypercorn, which has returned or failed while it was to serve."""
    cause = None if serving.cancelled() else serving.exception()
    why = "no reason was given" if cause is None else " ".join(str(cause).split()) or repr(cause)
    ended = ServerEndedError(f"the server ended by itself: {why}; start it again")
    ended.__cause__ = cause
    return ended


def _front(model: str) -> FrontModel:
    try:
        return front(model)
    except (ModelUnavailableError, ModelFileError, ChatTemplateError, OSError) as error:
        raise ServerStartError(" ".join(str(error).split())) from error


def _open_log(target: LogTarget | None) -> RequestLog:
    try:
        return RequestLog(target)
    except OSError as error:
        raise ServerStartError(
            f"cannot write the request log to {target}: {error.strerror}"
        ) from error


def _http(descriptor: int) -> Config:
    """How hypercorn serves; `descriptor` is the listening socket's."""
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.backlog = _BACKLOG
    config.keep_alive_timeout = 75.0
    config.keep_alive_max_requests = sys.maxsize
    config.graceful_timeout = _STOP_SECONDS  # an upper bound: `_main` ends requests earlier
    config.include_server_header = False
    config.errorlog = logging.getLogger("server_reference.http")
    return config
