"""The virtual environment in which the peers run: made once, in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from server_reference.downloads.cache import cache_dir

from ..figures import Progress

__all__ = ["BUILD_FLAGS", "PeersError", "interpreter", "versions"]

_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_TOOLS = ("cmake", "ninja")
_BUILT = "llama-cpp-python"
_POLL = 1.0
_LOG_TAIL = 2000

BUILD_FLAGS = "-fno-tree-dse -fno-dse"
"""Of llama.cpp's C++ code. GCC 12 takes the tile configuration that ggml makes for AMX for a
value that nobody reads, so that the first matrix product is an illegal instruction; without
this optimisation the peer has its AMX. Can go when ggml keeps it in a volatile or static object.
"""


class PeersError(RuntimeError):
    """The peers cannot be installed; the message says why."""


def versions() -> dict[str, str]:
    """The version of each package, as committed."""
    lines = _REQUIREMENTS.read_text().splitlines()
    pairs = [line.partition("==") for line in lines if "==" in line]
    return {name: version for name, _, version in pairs}


def interpreter(progress: Progress) -> Path:
    """The Python of the peers' environment, which is made first where it is missing.

    Takes several minutes the first time, in which llama.cpp is compiled, and 2 GB.

    Raises:
        PeersError: pip or the compiler failed; the message ends with what it said.
    """
    folder = cache_dir() / "peers" / _key()
    python = folder / "venv" / "bin" / "python"
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / ".lock"):
        if not (folder / ".installed").exists():
            _install(folder, python, progress)
            (folder / ".installed").touch()
    return python


def _key() -> str:
    """Names an environment by all that it depends on: also what it was compiled for."""
    parts = (str(versions()), BUILD_FLAGS, sys.version, sys.base_prefix, _processor())
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


def _processor() -> str:
    """The instructions that this machine knows, as far as Linux tells."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {flags}"


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two benchmarks at once make it once."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(folder: Path, python: Path, progress: Progress) -> None:
    progress("making an environment for the peers, once (2 GB)")
    _run(folder, progress, [sys.executable, "-m", "venv", "--clear", str(folder / "venv")])
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    pins = versions()
    tools = [f"{name}=={pins[name]}" for name in _TOOLS]
    _run(folder, progress, [*pip, *tools])
    wheels = [f"{name}=={pins[name]}" for name in pins if name not in (*_TOOLS, _BUILT)]
    _run(folder, progress, [*pip, *wheels])
    # Always compiled here and now: a wheel is for other machines, or was built without the flags.
    built = ["--no-cache-dir", "--no-binary", _BUILT, f"{_BUILT}=={pins[_BUILT]}"]
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
    flags = {"CXXFLAGS": BUILD_FLAGS, "CMAKE_ARGS": "-DGGML_NATIVE=ON"}
    _run(folder, progress, [*pip, *built], {"PATH": path} | flags)


def _run(
    folder: Path, progress: Progress, command: list[str], extra: Mapping[str, str] | None = None
) -> None:
    """Run a command, its output in a log; tell now and then what it is doing."""
    what = " ".join(word for word in command[1:] if not word.startswith(("-", "/")))
    log = folder / "install.log"
    begun = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **(extra or {})}
        )
        while process.poll() is None:
            progress(f"peers: {what} ({time.monotonic() - begun:.0f} s)")
            time.sleep(_POLL)
    if process.returncode:
        tail = log.read_text(errors="replace")[-_LOG_TAIL:]
        raise PeersError(f"the peers could not be installed ({what}); {log} ends with:\n{tail}")
