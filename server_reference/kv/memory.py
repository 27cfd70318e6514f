"""How much memory a process may still take: the machine's, or its control group's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["free_memory"]

_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = ("memory.max", "memory.current", "inactive_file")


def free_memory(root: Path = Path("/")) -> int:
    """Bytes that are available here: the least that the machine and any control group allow.

    Files that the kernel only caches count as free. Where there is no `proc`, all memory does.

    Source:
        Linux, Documentation/filesystems/proc.rst (MemAvailable),
        admin-guide/cgroup-v1/memory.rst and admin-guide/cgroup-v2.rst.
    """
    return max(0, min([_available(root), *_group_rooms(root)]))


def _available(root: Path) -> int:
    path = root / "proc/meminfo"
    if not path.is_file():
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _named(path, "MemAvailable:") * 1024


def _group_rooms(root: Path) -> Iterator[int]:
    """What each control group of this process leaves, up to the outermost one."""
    path = root / "proc/self/cgroup"
    for line in path.read_text().splitlines() if path.is_file() else []:
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        limit, usage, inactive = _V1 if controllers else _V2
        folder = base / group.lstrip("/")
        for each in (folder, *folder.parents[: len(folder.parts) - len(base.parts)]):
            if not (each / limit).is_file():
                continue  # inside a container, outer groups are out of sight
            most = (each / limit).read_text().strip()
            if most != "max":
                cached = _named(each / "memory.stat", inactive)
                yield int(most) - int((each / usage).read_text()) + cached


def _named(path: Path, name: str) -> int:
    """The number after a name that begins a line; 0 where there is none."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)
