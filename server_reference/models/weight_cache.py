"""Converted weights on disk, so that the next start maps them instead of dequantising again.

Mapped pages are shared: several engines of one model hold its weights once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..downloads.cache import atomic_writer, cache_dir
from .transformer import ModelConfig, weight_shapes

__all__ = ["cached_weights"]

# Counts up whenever the file's layout, a weight's name or its order within changes.
_FORMAT = 1
_MAGIC = b"SRWEIGHT"
_ALIGNMENT = 64

_logger = logging.getLogger(__name__)


class _StaleError(Exception):
    """A cache file that is damaged, or of another source."""


def cached_weights(
    source: Path, config: ModelConfig, dtype: torch.dtype, convert: Callable[[], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """The weights of `source`: from the cache, or converted and then cached.

    A cache file that is damaged or belongs to an older `source` is replaced. A cache that
    cannot be written to is logged, and costs only time.

    Args:
        source: The model's file; its path, size and time of change are the key.
        dtype: fp32 or bf16.
        convert: Makes the weights, as `weight_shapes` lists them.
    """
    path = _path(source, dtype)
    key = _key(source, config, dtype)
    try:
        return _read(path, key, config, dtype)
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


def _path(source: Path, dtype: torch.dtype) -> Path:
    place = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:12]
    name = f"{source.stem}-{place}-{str(dtype).removeprefix('torch.')}.weights"
    return cache_dir() / "weights" / name


def _key(source: Path, config: ModelConfig, dtype: torch.dtype) -> dict[str, Any]:
    stat = source.stat()
    return {
        "format": _FORMAT,
        "byte_order": sys.byteorder,
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "dtype": str(dtype),
        "shapes": {name: list(shape) for name, shape in weight_shapes(config).items()},
    }


def _write(path: Path, key: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Magic, length of the header, header, then the weights in the order of the key's shapes."""
    chunks = [weights[name].contiguous().view(torch.uint8) for name in key["shapes"]]
    checksum = 0
    for chunk in chunks:
        checksum = zlib.crc32(chunk.numpy().data, checksum)
    header = json.dumps({"key": key, "crc32": checksum}).encode()
    fixed = len(_MAGIC) + 8 + len(header)
    header += b" " * (-fixed % _ALIGNMENT)
    with atomic_writer(path) as file:
        file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
        for chunk in chunks:
            file.write(chunk.numpy().data)


def _read(
    path: Path, key: Mapping[str, Any], config: ModelConfig, dtype: torch.dtype
) -> dict[str, Tensor]:
    header, start = _header(path)
    if header.get("key") != key:
        raise _StaleError(f"{path} was made from another file or by another version")
    shapes = weight_shapes(config)
    sizes = [torch.Size(shape).numel() for shape in shapes.values()]
    num_bytes = sum(sizes) * dtype.itemsize
    if path.stat().st_size != start + num_bytes:
        raise _StaleError(f"{path} is not {start + num_bytes} bytes long")
    data = torch.from_file(str(path), shared=False, size=start + num_bytes, dtype=torch.uint8)
    data = data[start:]
    if zlib.crc32(data.numpy().data) != header.get("crc32"):
        raise _StaleError(f"{path} does not match its checksum")
    parts = torch.split(data.view(dtype), sizes)
    return {
        name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


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
        if not isinstance(header, dict):
            raise _StaleError(f"{path} has no readable header")
        return header, file.tell()
