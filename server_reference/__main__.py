"""The command line: `smartclient-server serve`, `explain`, `scripted`, `faults`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import count
from types import FrameType
from typing import TYPE_CHECKING, Any, get_type_hints

from . import explain
from .config import EngineConfig
from .printing import print_lines
from .scripted.command import add_command, run_command

if TYPE_CHECKING:
    from .gateway.server import Server

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM, or list the faults; return the exit status.

    A server that cannot start is one sentence on stderr and status 2, and one that ends by
    itself is one and status 1.
    """
    options = vars(_parser().parse_args(arguments))
    command = options.pop("command")
    if command == "faults":
        return _list_faults(**options)
    if command == "explain":
        return explain.run_command(options)
    if command == "scripted":
        return run_command(options, _wait_for_signal)
    options["api_keys"] = _keys(options.pop("api_key")) or None
    asked = {name: value for name, value in options.items() if value is not None}
    _on_signals(signal.default_int_handler)  # from now on: what loads is ended too
    try:
        server = _start(asked.pop("model"), asked)
    except KeyboardInterrupt:
        return 130
    if server is None:
        return 2
    with server:
        status = _wait(server)
        server.stop(drain=5.0)
    return status


def _start(model: str, options: dict[str, Any]) -> Server | None:
    """The running server; `None` when it cannot start, which is then said on stderr."""
    from . import start

    try:
        from .gateway.server import ServerEndedError, ServerStartError
    except ModuleNotFoundError as error:  # of the extra
        print(f"smartclient-server: {error}", file=sys.stderr)
        return None
    try:
        return start(model, **options)
    except (ServerStartError, ServerEndedError, ValueError) as error:
        print(f"smartclient-server: {error}", file=sys.stderr)
        return None


def _list_faults(kind: str | None, name: str | None) -> int:
    """Print the faults of a kind or a name, or all; 2 when there is none such."""
    from .scripted.faults.listing import listing, wrong

    if (why := wrong(kind=kind, name=name)) is not None:
        print(f"smartclient-server: {why}", file=sys.stderr)
        return 2
    print_lines([listing(kind=kind, name=name)])
    return 0


def _wait_for_signal() -> None:
    stop = threading.Event()
    _on_signals(lambda *_: stop.set())
    stop.wait()


def _wait(server: Server) -> int:
    """Say where it is, until a signal comes or it ends by itself; return the exit status."""
    from .gateway.server import ServerEndedError

    try:
        _tell(f"serving on {server.base_url}", *server.notes())
        server.wait()
    except KeyboardInterrupt:
        _on_signals(signal.SIG_IGN)  # stopping is bounded
    except ServerEndedError as error:
        print(f"smartclient-server: {error}", file=sys.stderr)
        return 1
    return 0


def _tell(*lines: str) -> None:
    """Print them; where nobody reads, the server serves all the same."""
    try:
        print(*lines, sep="\n  ", flush=True)
    except OSError as error:
        with suppress(OSError):
            print(f"smartclient-server: {lines[0]} ({error.strerror})", file=sys.stderr, flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _on_signals(action: Callable[[int, FrameType | None], Any] | signal.Handlers) -> None:
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, action)


def _keys(given: list[str]) -> dict[str, str]:
    """Keys with their tenants: `KEY` or `KEY=TENANT`, and one of its own where none is named."""
    named: dict[str, str | None] = {}
    for text in given:
        key, equals, tenant = text.rpartition("=")
        # A key may end with = itself, as base64 does.
        named.update({key: tenant} if equals and tenant else {text: None})
    keys: dict[str, str] = {}
    taken = set(named.values())
    for at, (key, named_tenant) in enumerate(named.items(), 1):
        numbered = map("tenant-{}".format, count(at))
        keys[key] = named_tenant or next(name for name in numbered if name not in taken)
        taken.add(keys[key])
    return keys


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="smartclient-server")
    commands = parser.add_subparsers(dest="command", required=True)
    add_command(commands)
    explain.add_command(commands)
    serve = commands.add_parser("serve", help="serve a model over HTTP")
    serve.add_argument(
        "--model",
        default="tiny",
        help="tiny (default), smollm2, a GGUF file, a folder, or org/model of a hub",
    )
    serve.add_argument("--host", help="address to listen on (default: this machine only)")
    serve.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
    serve.add_argument(
        "--api-key",
        action="append",
        default=[],
        metavar="KEY[=TENANT]",
        help="let this key in; may be repeated (default: no key is asked for)",
    )
    serve.add_argument(
        "--admin-key", metavar="KEY", help="shows what the engine does, for `explain`"
    )
    serve.add_argument("--max-body-bytes", type=int, metavar="N", help="longest body")
    serve.add_argument("--request-log", metavar="FILE", help="a JSON line per request; - is stderr")
    engine = serve.add_argument_group("engine", "explained in docs/reference/settings.md")
    for name, kind in _engine_options():
        flag = f"--{name.replace('_', '-')}"
        if kind is bool:
            engine.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
        else:
            engine.add_argument(flag, type=kind, metavar="NAME" if kind is str else "N")
    _add_faults(commands.add_parser("faults", help="list what the scripted server can break"))
    return parser


def _add_faults(faults: argparse.ArgumentParser) -> None:
    faults.add_argument("name", nargs="?", help="only this fault")
    faults.add_argument("--kind", type=str.upper, metavar="KIND", help="only faults of this kind")


def _engine_options() -> list[tuple[str, Any]]:
    """Fields of `EngineConfig` with the type that reads them from the command line."""
    hints = get_type_hints(EngineConfig)
    kinds: dict[Any, Any] = {
        int: int,
        int | None: int,
        float: float,
        float | None: float,
        bool: bool,
    }
    return [
        (one.name, kinds.get(hints[one.name], str))
        for one in fields(EngineConfig)
        if one.name != "model"
    ]


if __name__ == "__main__":
    sys.exit(main())
