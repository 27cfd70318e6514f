"""Budgets that many machines share, in Redis or in what speaks like it.

Needs the package `redis`, which the extra `redis` brings.
"""

from __future__ import annotations

from typing import Any, NoReturn

try:
    from redis import Redis, RedisCluster
    from redis import asyncio as redis_asyncio
    from redis import exceptions as redis_errors
    from redis.backoff import NoBackoff
    from redis.connection import ConnectionPool
    from redis.retry import Retry
except ImportError as error:
    raise ImportError("a RedisStore needs the package redis; install smartclient[redis]") from error

from .._clock import checked_seconds, under_trio
from .._latch import Latch
from .changes import Changes
from .connections import (
    Connections,
    Errors,
    LoopConnections,
    LostError,
    NoPlaceError,
    Progress,
)
from .operations import Operation, Reserve, Settle
from .owed import Owed
from .protocol import StoreError
from .redis_scripts import Command, Writer, identified, read_answer
from .sums import check
from .worker import Worker

__all__ = ["RedisStore"]

_ERRORS = Errors(
    refusals=(
        redis_errors.ResponseError,
        redis_errors.AuthenticationError,
        redis_errors.AuthorizationError,
        redis_errors.BusyLoadingError,
    ),
    gone=(redis_errors.ConnectionError,),
    any=(redis_errors.RedisError, redis_errors.RedisClusterException, OSError),
)

_FAILURES: tuple[type[Exception], ...] = (LostError, NoPlaceError, *_ERRORS.any)

_ADVICE: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((redis_errors.MovedError, redis_errors.AskError), "give a redis.RedisCluster client"),
    ((redis_errors.ReadOnlyError,), "name the primary, not a replica"),
    ((redis_errors.OutOfMemoryError,), "raise its maxmemory"),
    (
        (redis_errors.AuthenticationError, redis_errors.AuthorizationError),
        "look at the user and the password",
    ),
    ((redis_errors.NoPermissionError,), "allow EVALSHA, EVAL and the keys of the prefix"),
)


class RedisStore:
    """Keeps budgets in Redis, for as many processes and machines as share it.

    Each operation is one script, which Redis runs as one step over all accounts. Nothing is
    connected before it is needed, and a Redis that comes back is used again at once. Under
    asyncio each loop has connections of its own; under trio, and with a client of yours,
    operations run in threads.

    A settlement that did not get through is kept, and sent again until it does; so is what
    gives back a reservation whose answer was lost or whose caller was cancelled.

    Args:
        source: `redis://`, `rediss://` (TLS) or `unix://`; or a blocking client of the package
            `redis`, which tells how to connect; for a cluster a `RedisCluster`.
        prefix: Begins the name of every key, as its hash tag: all keys of one prefix lie on
            one node of a cluster. Stores of one prefix share their accounts.
        timeout: Seconds to wait for a connection, to connect, and for an answer; under
            asyncio for all three together.
        connections: Most at once, of the threads together and of each loop.
        remember: Seconds for which the same settlement sent twice counts once, and for which
            one that did not get through is sent again.

    Raises:
        ImportError: The package `redis` is not there.
        TypeError: `source` is no URL and no client.
        ValueError: `source` is no URL of Redis, or a number is out of range.
    """

    is_quick = False

    def __init__(
        self,
        source: str | Redis | RedisCluster,
        *,
        prefix: str = "smartclient",
        timeout: float = 2.0,
        connections: int = 16,
        remember: float = 900.0,
    ) -> None:
        self._prefix = _checked_prefix(prefix)
        self._timeout = checked_seconds("timeout", timeout)
        self._most = _checked_number("connections", connections)
        self._writer = Writer(prefix, remember=checked_seconds("remember", remember))
        self._changes = Changes()
        self._owed: Owed[Command] = Owed(self._tell, keep=remember)
        self._worker = Worker(self.do, self._undo, threads=connections)
        self._cluster: RedisCluster | None = None
        self._threads: Connections | None = None
        self._loops: LoopConnections | None = None
        self._where = self._prepare(source)

    def __repr__(self) -> str:
        return f"RedisStore({self._where!r}, prefix={self._prefix!r})"

    def do(self, operation: Operation) -> Any:
        """Do it, and answer; see `Operation`.

        Raises:
            StoreError: Redis cannot be reached, gave no answer in time, or refuses.
            TypeError: A count is no whole number.
            ValueError: A count is out of bounds.
        """
        check(operation)
        operation = identified(operation)
        command = self._writer.command(operation)
        try:
            answer = read_answer(operation, self._run(command))
        except BaseException as error:
            self._keep(operation, command, error)
            raise
        self._did(operation)
        return answer

    async def do_async(self, operation: Operation) -> Any:
        """The same, by awaiting."""
        check(operation)
        operation = identified(operation)
        if self._loops is None or under_trio():
            return await self._worker.do(operation)
        command = self._writer.command(operation)
        try:
            answer = read_answer(operation, await self._run_async(self._loops, command))
        except BaseException as error:  # cancelled, for one
            self._keep(operation, command, error)
            raise
        self._did(operation)
        return answer

    def changed(self) -> Latch:
        """Set the next time that something is let go by this process."""
        return self._changes.next()

    def close(self) -> None:
        """Send what is still to send, and close what is idle; the next operation reconnects.

        Connections of an asyncio loop close when it ends.
        """
        self._owed.flush()
        self._worker.close()
        if self._threads is not None:
            self._threads.close()

    def _run(self, command: Command) -> Any:
        progress = Progress()
        try:
            try:
                return self._exchange(progress, "EVALSHA", *_by_name(command))
            except redis_errors.NoScriptError:
                return self._exchange(progress, "EVAL", *_in_full(command))
        except _FAILURES as error:
            self._fail(error, progress)

    async def _run_async(self, loops: LoopConnections, command: Command) -> Any:
        progress = Progress()
        try:
            try:
                return await loops.exchange(progress, "EVALSHA", *_by_name(command))
            except redis_errors.NoScriptError:
                return await loops.exchange(progress, "EVAL", *_in_full(command))
        except _FAILURES as error:
            self._fail(error, progress)

    def _exchange(self, progress: Progress, *parts: Any) -> Any:
        if self._threads is not None:
            return self._threads.exchange(progress, *parts)
        cluster: Any = self._cluster
        progress.is_out = True  # it may send more than once, and does not tell
        try:
            return cluster.execute_command(*parts)
        except redis_errors.ResponseError:
            progress.is_out = False
            raise

    def _keep(self, operation: Operation, command: Command, error: BaseException) -> None:
        """Keep for later what the failure left to do."""
        is_undone = isinstance(error, StoreError) and not error.maybe_done
        if isinstance(operation, Settle):
            self._owed.add(command)
        elif isinstance(operation, Reserve) and not is_undone:
            self._owed.add(self._writer.undo(operation))

    def _did(self, operation: Operation) -> None:
        if isinstance(operation, Settle):
            self._changes.tell()
        self._owed.hurry()

    def _undo(self, reserve: Reserve) -> None:
        command = self._writer.undo(reserve)
        try:
            self._tell(command)
        except StoreError:
            self._owed.add(command)

    def _tell(self, command: Command) -> None:
        self._run(command)
        self._changes.tell()

    def _fail(self, error: Exception, progress: Progress) -> NoReturn:
        where, cause = self._where, error.__cause__ if isinstance(error, LostError) else error
        if isinstance(error, NoPlaceError):
            what = (
                f"all {self._most} connections to {where} were in use for {self._timeout:g} s; "
                "raise connections, or the timeout"
            )
        elif isinstance(cause, _ERRORS.refusals):
            advice = next((text for kinds, text in _ADVICE if isinstance(cause, kinds)), "")
            what = f"{where} refuses: {cause}{advice and f' ({advice})'}"
        else:
            lost = "gave no answer" if progress.is_out else "cannot be reached"
            what = f"{where} {lost}: {_told(cause, self._timeout)}"
        if progress.is_out:
            what += "; it may have counted all the same"
        raise StoreError(what, maybe_done=progress.is_out) from cause

    def _prepare(self, source: str | Redis | RedisCluster) -> str:
        """Make ready to connect; where to, in words without a password."""
        ours: dict[str, Any] = {
            "socket_timeout": self._timeout,
            "socket_connect_timeout": self._timeout,
            "retry": Retry(NoBackoff(), 0),  # an operation is sent again here, where it is known
        }
        if isinstance(source, RedisCluster):
            self._cluster = source
            return "the Redis cluster"
        if isinstance(source, Redis):
            pool = source.connection_pool
            kind, options = pool.connection_class, {**pool.connection_kwargs, **ours}
        elif isinstance(source, str):
            kind, options = self._prepare_url(source, ours | {"protocol": 2})
        else:
            raise TypeError(
                "source must be a URL such as redis://host:6379/0, or a blocking client of the "
                f"package redis, not {type(source).__name__}"
            )
        self._threads = Connections(
            lambda: kind(**options), _ERRORS, most=self._most, timeout=self._timeout
        )
        return _place(options)

    def _prepare_url(self, url: str, ours: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        try:
            pool = ConnectionPool.from_url(url, **ours)
            pool.connection_class(**pool.connection_kwargs)
            loops = redis_asyncio.ConnectionPool.from_url(url, **ours)
            loops.connection_class(**loops.connection_kwargs)
        except (ValueError, TypeError, redis_errors.RedisError):
            # Without the cause, and without the URL: a password may stand in both.
            raise ValueError(
                "source must be a URL such as redis://user:password@host:6379/0, rediss:// or "
                "unix:///path; special characters in a password are written as %XX"
            ) from None
        self._loops = LoopConnections(
            lambda: loops.connection_class(**loops.connection_kwargs),
            _ERRORS,
            most=self._most,
            timeout=self._timeout,
        )
        return pool.connection_class, pool.connection_kwargs


def _by_name(command: Command) -> tuple[str | int, ...]:
    return command.script.digest, len(command.keys), *command.keys, command.numbers


def _in_full(command: Command) -> tuple[str | int, ...]:
    return command.script.text, len(command.keys), *command.keys, command.numbers


def _told(cause: BaseException | None, timeout: float) -> str:
    is_late = isinstance(cause, redis_errors.TimeoutError | TimeoutError)
    return f"nothing came within {timeout:g} s" if is_late else str(cause)


def _place(options: dict[str, Any]) -> str:
    if "path" in options:
        return f"redis at {options['path']}"
    return f"redis at {options.get('host', 'localhost')}:{options.get('port', 6379)}"


def _checked_prefix(prefix: object) -> str:
    if not isinstance(prefix, str):
        raise TypeError(f"prefix must be text, not {type(prefix).__name__}")
    if not prefix or "{" in prefix or "}" in prefix:
        raise ValueError(f"prefix must be text without braces, not {prefix!r}")
    return prefix


def _checked_number(name: str, number: object) -> int:
    if type(number) is not int:
        raise TypeError(f"{name} must be a whole number, not {number!r}")
    if number < 1:
        raise ValueError(f"{name} must be at least 1, not {number}")
    return number
