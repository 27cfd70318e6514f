"""A Python with an older Triton and without torch: made once, in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

from server_reference.downloads.cache import cache_dir

__all__ = ["PACKAGES", "interpreter"]

# That Triton's `range` does not take the integers of numpy 2.4 (triton-lang/triton#9171).
PACKAGES = ("triton==3.6.0", "numpy<2.4")


def interpreter() -> Path:
    """Its Python. Takes a minute the first time, and 600 MB.

    Raises:
        subprocess.CalledProcessError: pip failed; its output was shown.
    """
    key = hashlib.sha256("|".join((*PACKAGES, sys.version, sys.executable)).encode()).hexdigest()
    folder = cache_dir() / "older-triton" / key[:12]
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at once make it once
        if not (folder / ".installed").exists():
            venv = [sys.executable, "-m", "venv", "--clear", str(folder / "venv")]
            pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *PACKAGES]
            subprocess.run(venv, check=True)
            subprocess.run(pip, check=True)
            (folder / ".installed").touch()
    return python
