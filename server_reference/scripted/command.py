"""`smartclient-server scripted`: a scripted server with its admin API, for any language."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

__all__ = ["add_command", "run_command"]

_TOKEN = "SCRIPTED_ADMIN_TOKEN"


def add_command(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    scripted: argparse.ArgumentParser = commands.add_parser(
        "scripted",
        help="play answers and faults to a client, and judge it",
        description=f"The admin token is {_TOKEN} of the environment, or made up and printed.",
    )
    scripted.add_argument("--rules", metavar="FILE", help="a JSON list of rules; - is stdin")
    scripted.add_argument("--port", type=int, default=0, help="0 takes a free one")
    scripted.add_argument("--admin-port", type=int, default=0, help="likewise")
    scripted.add_argument("--seed", type=int, default=0, help="of everything random")
    scripted.add_argument(
        "--manual-clock",
        action="store_true",
        help="time passes by POST /clock/advance of the admin API only",
    )


def run_command(options: dict[str, Any], wait: Callable[[], None]) -> int:
    """Serve until `wait` returns; return the exit status."""
    with ExitStack() as running:
        try:
            lines = _start(options, running)
        except (OSError, TypeError, ValueError) as error:
            print(f"smartclient-server: {error}", file=sys.stderr)
            return 2
        print(*lines, sep="\n", flush=True)
        wait()
    return 0


def _start(options: dict[str, Any], running: ExitStack) -> list[str]:
    """What is printed once both run."""
    from .admin import Admin
    from .clock import ManualClock, SystemClock
    from .server import scripted

    clock = ManualClock() if options["manual_clock"] else SystemClock()
    server = running.enter_context(
        scripted(_rules(options["rules"]), port=options["port"], seed=options["seed"], clock=clock)
    )
    token = os.environ.get(_TOKEN)
    admin = running.enter_context(Admin(server, port=options["admin_port"], token=token))
    shown = [] if token else [f"admin token {admin.token}"]
    return [f"serving on {server.base_url}", f"admin API on {admin.url}", *shown]


def _rules(path: str | None) -> Any:
    """The rules of a file."""
    import msgspec

    from .rules import rule_from_json

    if path is None:
        return ()
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        given = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(given, list):
        raise ValueError(f"{path} must hold a list of rules, not {type(given).__name__}")
    made = []
    for number, one in enumerate(given):
        try:
            made.append(rule_from_json(one))
        except ValueError as error:
            raise ValueError(f"{path}, rules[{number}]: {error}") from error
    return made
