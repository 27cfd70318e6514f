"""Start the processes that are measured, tell them what to do, and see that they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

__all__ = ["ROOT", "Worker", "cores", "environment", "on_core", "running_upstream"]

ROOT = Path(__file__).resolve().parent.parent


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a child: this tree's own code, one thread; no keys, URLs and proxies of the caller's."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().endswith(("_PROXY", "_API_KEY", "_BASE_URL"))
        and not name.startswith("PYTHON")
    }
    ours = {
        "PYTHONPATH": str(ROOT / "src"),  # not of whichever tree is installed
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "0",
    }
    return kept | ours | dict(extra or {})


def cores() -> tuple[int | None, int | None]:
    """One core for servers and another for clients; `None` where none can be chosen."""
    if not hasattr(os, "sched_setaffinity"):
        return None, None
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[-1]) if len(usable) > 1 else (None, None)


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Children that are started in this block stay on `core`."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Worker:
    """A child that answers each line of JSON with one; it ends when its input does.

    Args:
        arguments: Of the interpreter, such as `-m` and a module's name.
        core: The only core it may use.
        extra: Added to its environment.
        python: The interpreter; `None` is this one.
    """

    def __init__(
        self,
        *arguments: str,
        core: int | None = None,
        extra: Mapping[str, str] | None = None,
        python: Path | None = None,
    ) -> None:
        with on_core(core):
            self._process = subprocess.Popen(
                [str(python or sys.executable), *arguments],
                cwd=ROOT,
                env=environment(extra),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

    def read(self) -> str:
        """The next line that it prints.

        Raises:
            RuntimeError: It has ended instead.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            command = " ".join(map(str, self._process.args[1:]))  # type: ignore[index]
            raise RuntimeError(f"{command} ended early; what it said is above")
        return line.strip()

    def ask(self, **question: Any) -> Any:
        """Send one question; its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self.read())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
        with self._process:  # closes its output
            pass


@contextmanager
def running_upstream(
    core: int | None = None, *, certificate: str | None = None
) -> Iterator[tuple[str, Worker]]:
    """The base URL of a loopback server, and its process; it ends with the block.

    Asked for nothing, the process answers with the connections and the calls it has counted.

    Args:
        certificate: A file with a key and a certificate for TLS; `None` is plain.
    """
    given = () if certificate is None else (certificate,)
    scheme = "http" if certificate is None else "https"
    with Worker("-m", "benchmarks.upstream", *given, core=core) as server:
        yield f"{scheme}://127.0.0.1:{server.read()}", server
