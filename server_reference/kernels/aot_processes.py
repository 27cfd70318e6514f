"""Compile rows in processes of their own, and know again what was compiled before."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

from ..downloads.cache import atomic_writer, cache_dir
from .aot_report import Report, wrongs
from .manifest import Row

__all__ = ["CompilerError", "Job", "Progress", "Result", "compile_all"]

Job: TypeAlias = tuple[str, Row]
"""For which chips, and what."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Told how many are done, of how many, and what that was."""

_logger = logging.getLogger(__name__)


class CompilerError(RuntimeError):
    """The compiler's process does not start; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one row for one target.

    Args:
        report: `None` where it did not compile.
        wrongs: Why the row may not be committed; empty: it may.
        seconds: Spent on it now; `None` where it was known.
    """

    target: str
    row: Row
    report: Report | None
    wrongs: tuple[str, ...]
    seconds: float | None = None


def compile_all(
    jobs: Sequence[Job],
    *,
    at_once: int = 2,
    keep: bool = False,
    progress: Progress = lambda done, total, what: None,
    python: str = sys.executable,
) -> tuple[str, list[Result]]:
    """Compile rows, or take what the user's cache knows of them.

    Args:
        at_once: Processes that compile.
        keep: Compile all of them again, into Triton's own cache, so that launching such a row
            on this machine compiles nothing.
        python: The interpreter whose Triton compiles.

    Returns:
        The compiler's version, and a result for each job in their order.

    Raises:
        CompilerError: There is no Triton, or it does not start.
    """
    free: SimpleQueue[_Compiler] = SimpleQueue()
    with _compilers(max(1, min(at_once, len(jobs))), python, keep=keep) as compilers:
        for compiler in compilers:
            free.put(compiler)
        version = compilers[0].version()
        known = _Known(cache_dir() / "kernels" / f"triton-{version}.json")
        done = iter(range(1, len(jobs) + 1))

        def run(job: Job) -> Result:
            compiler = free.get()
            try:
                result = _result(job, compiler, known, keep=keep)
            finally:
                free.put(compiler)
            progress(next(done), len(jobs), f"{job[1].kernel} for {job[0]}")
            return result

        with ThreadPoolExecutor(len(compilers)) as threads:
            try:
                return version, list(threads.map(run, jobs))
            finally:
                threads.shutdown(wait=True, cancel_futures=True)
                known.save()


def _result(job: Job, compiler: _Compiler, known: _Known, *, keep: bool) -> Result:
    target, row = job
    before = None if keep else known.get(job)
    answer = compiler.ask({"target": target, "row": row.as_json(), "key": before and before["key"]})
    if "error" in answer:
        told = (f"does not compile: {answer['error']}",)
        return Result(target=target, row=row, report=None, wrongs=told)
    if "report" in answer:
        known.put(job, {"key": answer["key"], "report": answer["report"]})
    report = Report.of_json(answer["report"] if "report" in answer else (before or {})["report"])
    return Result(
        target=target,
        row=row,
        report=report,
        wrongs=tuple(wrongs(report, target)),
        seconds=answer.get("seconds"),
    )


class _Known:
    """Reports that one compiler made before, by target and row; with what names their source."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_changed = False
        try:
            read = json.loads(path.read_bytes())
        except (OSError, ValueError):
            read = {}
        self._entries: dict[str, dict[str, Any]] = read if isinstance(read, dict) else {}

    def get(self, job: Job) -> dict[str, Any] | None:
        entry = self._entries.get(self._name(job))
        try:
            Report.of_json(entry["report"])  # type: ignore[index]  # whatever is in the file
            return {"key": str(entry["key"]), "report": entry["report"]}  # type: ignore[index]
        except (LookupError, TypeError, ValueError, AttributeError):
            return None

    def put(self, job: Job, entry: dict[str, Any]) -> None:
        self._entries[self._name(job)] = entry
        self._is_changed = True

    def save(self) -> None:
        """A cache that cannot be written to is logged, and costs only time."""
        if not self._is_changed:
            return
        try:
            with atomic_writer(self._path) as file:
                file.write(json.dumps(self._entries, indent=1).encode())
        except OSError as error:
            _logger.warning("compiled rows cannot be kept at %s: %s", self._path, error)

    @staticmethod
    def _name(job: Job) -> str:
        return f"{job[0]} {json.dumps(job[1].as_json())}"


class _Compiler:
    """A process that compiles, started when it is first asked, and again after a crash."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self._command, self._environment = command, environment
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (until `close`)
        self._version = ""

    def version(self) -> str:
        """Of its Triton."""
        self._start()
        return self._version

    def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Its answer; an `error` where it ended instead."""
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            print(json.dumps(asked), file=process.stdin, flush=True)
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self._end()
            return {"error": f"the compiler ended with status {status}: {self._told()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._end()
        self._errors.close()

    def _start(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._errors.truncate(0)
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            if not line:
                status = self._end()
                raise CompilerError(
                    f"the compiler does not start (status {status}): {self._told()}; it needs "
                    f"Linux and smartclient[server]"
                )
            self._version = json.loads(line)["triton"]
        return self._process

    def _end(self) -> int:
        if self._process is None:
            return 0
        with self._process as process:  # closes its pipes, at which it ends
            self._process = None
        return process.returncode

    def _told(self) -> str:
        """The last line that it said."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


@contextmanager
def _compilers(count: int, python: str, *, keep: bool) -> Iterator[list[_Compiler]]:
    """Compilers whose code goes to a folder that is deleted, or to Triton's own cache."""
    command = [python, "-m", f"{__package__}.aot_worker"]
    with tempfile.TemporaryDirectory(prefix="smartclient-aot-") as scratch:
        own = {"TRITON_ALWAYS_COMPILE": "1", "PYTHONPATH": os.pathsep.join(_path())}
        own |= {} if keep else {"TRITON_CACHE_DIR": scratch}
        inherited = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
        # Triton 3.9 warns where this is not set; it is what it does anyway.
        environment = {"TRITON_DEFAULT_FP_FUSION": "1", **inherited, **own}
        made = [_Compiler(command, environment) for _ in range(count)]
        try:
            yield made
        finally:
            for compiler in made:
                compiler.close()


def _path() -> list[str]:
    """Where we are found, and what the caller's modules are found by."""
    return [
        str(Path(__file__).parents[2]),
        *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
    ]
