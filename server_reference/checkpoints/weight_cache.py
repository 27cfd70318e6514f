"""Converted weights on disk, so that the next start maps them instead of converting again.

Mapped pages are shared: several engines of one model hold its weights once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..downloads.cache import atomic_writer, cache_dir

__all__ = ["cached_weights"]

# Counts up whenever the file's layout, a weight's name or what is stored for it changes.
_FORMAT = 3
_MAGIC = b"SRWEIGHT"
_ALIGNMENT = 64

_logger = logging.getLogger(__name__)


class _StaleError(Exception):
    """A cache file that is damaged, or of another source."""


def cached_weights(
    source: Path,
    asked: Mapping[str, Any],
    convert: Callable[[], dict[str, Tensor]],
    *,
    name: str,
    files: Sequence[Path] = (),
) -> dict[str, Tensor]:
    """The weights of `source`: from the cache, or converted and then cached.

    A cache file that is damaged or belongs to an older `source` is replaced. A cache that
    cannot be written to is logged, and costs only time.

    Args:
        source: The model's file or folder; its path is part of the key.
        asked: All else that the weights depend on, as JSON has it.
        convert: Makes the weights, of any names, dtypes and shapes.
        name: Tells apart the files of one source.
        files: What the weights are made from, if `source` is a folder.
    """
    path = _path(source, name)
    key = _key(files or [source], asked)
    try:
        return _read(path, key)
    except FileNotFoundError:
        pass
    except (_StaleError, OSError) as error:
        _logger.info("converting %s again: %s", source, error)
    weights = convert()
    try:
        _write(path, key, weights)
    except OSError as error:
        _logger.warning("converted weights cannot be kept at %s: %s", path, error)
        return weights
    del weights  # the next start's are taken at once: mapped pages, not this process's own
    return _read(path, key)


def _path(source: Path, name: str) -> Path:
    place = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:12]
    return cache_dir() / "weights" / f"{source.name.removesuffix('.gguf')}-{place}-{name}.weights"


def _key(files: Sequence[Path], asked: Mapping[str, Any]) -> dict[str, Any]:
    key = {
        "format": _FORMAT,
        "byte_order": sys.byteorder,
        "files": [_state(file) for file in files],
        "asked": asked,
    }
    returned: dict[str, Any] = json.loads(json.dumps(key))  # tuples are lists there
    return returned


def _state(file: Path) -> dict[str, Any]:
    """What differs once a file was edited or another took its place.

    Whoever sets the time of its last change back, as copying does, still changes its inode.
    """
    stat = file.stat()
    own = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "ctime_ns": stat.st_ctime_ns}
    return {"name": file.name, "inode": stat.st_ino} | own


def _write(path: Path, key: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Magic, length of the header, header, then the weights; each begins aligned."""
    listed = [
        (name, str(weight.dtype).removeprefix("torch."), list(weight.shape))
        for name, weight in weights.items()
    ]
    checksum = zlib.crc32(json.dumps(listed).encode())
    chunks: list[memoryview | bytes] = []
    for weight in weights.values():
        data = weight.contiguous().view(-1).view(torch.uint8).numpy()
        chunks += [data.data, b"\0" * (-data.nbytes % _ALIGNMENT)]
    for chunk in chunks:
        checksum = zlib.crc32(chunk, checksum)
    header = json.dumps({"key": key, "crc32": checksum, "weights": listed}).encode()
    fixed = len(_MAGIC) + 8 + len(header)
    header += b" " * (-fixed % _ALIGNMENT)
    with atomic_writer(path) as file:
        file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
        for chunk in chunks:
            file.write(chunk)


def _read(path: Path, key: Mapping[str, Any]) -> dict[str, Tensor]:
    header, start = _header(path)
    if header.get("key") != key:
        raise _StaleError(f"{path} was made from another file or by another version")
    num_bytes = path.stat().st_size
    data = torch.from_file(str(path), shared=False, size=num_bytes, dtype=torch.uint8)[start:]
    listed = header["weights"]
    if zlib.crc32(data.numpy().data, zlib.crc32(json.dumps(listed).encode())) != header["crc32"]:
        raise _StaleError(f"{path} does not match its checksum")
    weights = {}
    at = 0
    for name, dtype_name, shape in listed:
        dtype = getattr(torch, dtype_name)
        size = math.prod(shape) * dtype.itemsize
        weights[name] = data[at : at + size].view(dtype).view(shape)
        at += size + -size % _ALIGNMENT
    return weights


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The header, and where the weights begin."""
    with path.open("rb") as file:
        magic = file.read(len(_MAGIC))
        length = int.from_bytes(file.read(8), "little")
        if magic != _MAGIC or length > path.stat().st_size:
            raise _StaleError(f"{path} does not begin as it should")
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise _StaleError(f"{path} has no readable header") from error
        if not isinstance(header, dict) or not {"crc32", "weights"} <= header.keys():
            raise _StaleError(f"{path} has no readable header")
        return header, file.tell()
