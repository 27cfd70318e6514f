"""Put one extra of this checkout into its `.venv`, once; run by `scripts/install`.

Standard library only: nothing is installed yet when this runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["DEBIAN", "install", "install_debian_packages", "is_installed", "main", "stamp"]

SIZES = {"demo": "2.1 GB", "test": "2.3 GB", "dev": "2.4 GB"}
"""What each extra takes on disk with the CPU build of torch, measured with `du`."""

DEBIAN = {
    "valgrind": ("valgrind", "scripts/bench --gate cannot count instructions"),
    "redis-server": ("redis-server", "tests against a real Redis are skipped"),
}
"""Packages of Debian, the command that each brings, and what is missing without it."""

EVERYTHING = "dev"
INPUTS = ("pyproject.toml", "constraints.txt")


class UnusablePythonError(Exception):
    """No virtual environment can be made with this Python."""


def stamp(root: Path, extra: str) -> str:
    """What must be unchanged for an installed extra to be still right.

    The place of the checkout belongs to it, because scripts of a `.venv` name it, and so
    does the version of Python, which an upgrade of the system changes under a `.venv`.
    """
    parts = [(root / name).read_bytes() for name in INPUTS]
    version = subprocess.run([_python(root), "-V"], capture_output=True, check=True)
    parts += [str(root.resolve()).encode(), version.stdout]
    return f"{extra} {hashlib.sha256(b'|'.join(parts)).hexdigest()}"


def is_installed(root: Path, extra: str) -> bool:
    """Whether `extra` is there, alone or as a part of everything."""
    done, begun = _marks(root)
    if begun.exists() or not done.exists() or not _python(root).exists():
        return False
    lines = done.read_text().splitlines()
    return stamp(root, extra) in lines or stamp(root, EVERYTHING) in lines


def install(root: Path, extra: str) -> None:
    """Make `.venv` where it is missing or was left half done, and put `extra` into it.

    Raises:
        UnusablePythonError: This Python is too old or lacks the venv module.
        subprocess.CalledProcessError: venv or pip failed, and has said why.
    """
    done, begun = _marks(root)
    is_new = begun.exists() or not _has_pip(root)
    if is_new:
        _check_python()
    _say(f"{SIZES[extra]} into .venv, once (several GB more if pip takes torch's CUDA build)")
    if is_new:
        subprocess.run([sys.executable, "-m", "venv", "--clear", root / ".venv"], check=True)
    begun.touch()  # stays when this process is killed: the next run then begins afresh
    quiet: list[str] = [] if sys.stdout.isatty() else ["--quiet"]
    pip = [str(_python(root)), "-m", "pip", "install", "--disable-pip-version-check", *quiet]
    try:
        subprocess.run([*pip, "-c", "constraints.txt", "-e", f".[{extra}]"], cwd=root, check=True)
        with done.open("a") as lines:
            lines.write(stamp(root, extra) + "\n")
    except subprocess.CalledProcessError as error:
        if error.returncode > 0:  # pip gave up by itself, and leaves whole packages
            begun.unlink()
        raise
    begun.unlink()


def _marks(root: Path) -> tuple[Path, Path]:
    return root / ".venv" / ".installed", root / ".venv" / ".installing"


def _python(root: Path) -> Path:
    return root / ".venv" / "bin" / "python"


def _has_pip(root: Path) -> bool:
    python = _python(root)
    if not python.exists():
        return False
    return subprocess.run([python, "-m", "pip", "-V"], capture_output=True).returncode == 0


def _check_python() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 (it runs before anything has looked)
        raise UnusablePythonError(
            f"{sys.executable} is Python {sys.version.split()[0]}; 3.11 or later is needed: "
            "name one with PYTHON=/path/to/python3"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise UnusablePythonError(
            f"{sys.executable} lacks the venv module; install it (Debian: apt install "
            "python3-venv) or name another Python with PYTHON=/path/to/python3"
        ) from None


def install_debian_packages() -> None:
    """Add what of `DEBIAN` is missing, where this is root and there is apt-get."""
    missing = {name: why for name, (command, why) in DEBIAN.items() if not shutil.which(command)}
    if not missing or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["-y", "install", *missing]):
        line = ["apt-get", "-qq", *command]
        if subprocess.run(line, stdout=subprocess.DEVNULL, env=environment).returncode != 0:
            _say(f"{' '.join(line)} failed: {'; '.join(missing.values())}")
            return


def _say(text: str) -> None:
    print(f"scripts/install: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Install the extra that is named, or everything; return the exit code."""
    root = Path(__file__).resolve().parent.parent
    extra = arguments[0] if arguments else EVERYTHING
    if extra not in SIZES:
        _say(f"{extra!r} is none of the extras {', '.join(SIZES)}")
        return 2
    with (root / INPUTS[0]).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two scripts at once: the second waits for the first
        if is_installed(root, extra):
            return 0
        try:
            install(root, extra)
        except UnusablePythonError as error:
            _say(str(error))
            return 2
        except subprocess.CalledProcessError as error:
            which = "pip" if "pip" in error.cmd else "venv"
            _say(f"{which} ended with code {error.returncode}; run this again to go on")
            return 1
        except KeyboardInterrupt:
            return 130
        if extra == EVERYTHING:
            install_debian_packages()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
