"""Read GGUF files: their metadata at once, their tensors when asked.

The metadata is parsed here because `gguf.GGUFReader` takes seconds for a vocabulary of
49,152 entries (it makes several numpy arrays per string), where one pass over the bytes
takes less than a tenth of one. Sizes and dequantising are the `gguf` package's.

Source:
    The GGUF specification, ggml-org/ggml docs/gguf.md, versions 2 and 3.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import ModelFileError

if TYPE_CHECKING:
    from gguf.constants import GGMLQuantizationType

__all__ = ["GgufError", "GgufFile", "Metadata", "Scalar", "TensorInfo", "Value"]

Scalar: TypeAlias = int | float | bool | str
Value: TypeAlias = Scalar | list[Scalar]

# The specification's value types as codes of `struct`.
_SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
_STRING = 8
_ARRAY = 9
_VERSIONS = (2, 3)
_MAX_DIMENSIONS = 4


class GgufError(ModelFileError):
    """A file that is not a complete GGUF file, or not one of a model that can be run."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of the file; `shape` is row-major, as PyTorch has it."""

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int
    num_bytes: int


class Metadata:
    """The key-value pairs of a file, each with the type that its reader expects.

    Args:
        names: What its reader's names are called in the file, where they differ.
        error: Raised where one is missing, or not of its type.
    """

    def __init__(
        self,
        path: Path,
        values: Mapping[str, Any],
        *,
        names: Mapping[str, str] | None = None,
        error: type[ModelFileError] = GgufError,
    ) -> None:
        self.path = path
        self.values = values
        self._names = names or {}
        self._error = error

    def __contains__(self, key: str) -> bool:
        return self._names.get(key, key) in self.values

    def named(self, names: Mapping[str, str]) -> Metadata:
        """The same pairs for a reader that has other names for them."""
        return Metadata(self.path, self.values, names=names, error=self._error)

    def nested(self, key: str) -> Metadata:
        """The pairs below a key; none where it is absent."""
        inner = self.values.get(key) or {}
        if not isinstance(inner, dict):
            raise self._wrong(key, "an object", inner)
        known = {name: value for name, value in inner.items() if value is not None}
        return Metadata(self.path, known, error=self._error)

    def text(self, key: str, default: str | None = None) -> str:
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "text", value)
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, "an integer", value)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong(key, "a number", value)
        try:
            return float(value)
        except OverflowError:
            raise self._wrong(key, "a number of 64 bits", value) from None

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def texts(self, key: str) -> list[str]:
        items = self._list(key)
        texts = [item for item in items if isinstance(item, str)]
        if len(texts) != len(items):
            raise self._wrong(key, "a list of texts", items)
        return texts

    def integers(self, key: str) -> list[int]:
        items = self._list(key)
        integers = [item for item in items if isinstance(item, int)]
        if len(integers) != len(items):
            raise self._wrong(key, "a list of integers", items)
        return integers

    def numbers(self, key: str) -> list[float]:
        items = self._list(key)
        if not all(isinstance(item, int | float) for item in items):
            raise self._wrong(key, "a list of numbers", items)
        return items

    def flags(self, key: str) -> list[bool]:
        """A list of true and false; empty where there is no such list."""
        value = self.values.get(self._names.get(key, key))
        return [bool(item) for item in value] if isinstance(value, list) else []

    def _list(self, key: str) -> list[Any]:
        value = self._get(key, None)
        if not isinstance(value, list):
            raise self._wrong(key, "a list", value)
        return value

    def _get(self, key: str, default: Any) -> Any:
        key = self._names.get(key, key)
        value = self.values.get(key)
        value = default if value is None else value
        if value is None:
            raise self._error(f"{self.path} has no metadata {key!r}, which is needed to run it")
        return value

    def _wrong(self, key: str, wanted: str, value: object) -> ModelFileError:
        shown, key = repr(value)[:60], self._names.get(key, key)
        return self._error(f"{self.path}: metadata {key!r} should be {wanted}, not {shown}")


class GgufFile:
    """One GGUF file, mapped into memory.

    Opening reads the header and checks that every tensor lies inside the file.

    Raises:
        GgufError: The file is missing, no GGUF file, of an unknown version, cut short, or only
            a part of a model.
        ModuleNotFoundError: gguf is not installed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = _map(path)
        cursor = _Cursor(path, self._data)
        num_tensors, num_values = _preamble(path, cursor)
        self.metadata = Metadata(path, dict(_values(cursor, num_values)))
        _refuse_parts(self.metadata)
        infos = [_tensor_info(cursor) for _ in range(num_tensors)]
        alignment = self.metadata.integer("general.alignment", 32)
        if alignment < 1:
            raise GgufError(f"{path}: general.alignment is {alignment}; it must be at least 1")
        self._start = -(-cursor.position // alignment) * alignment
        self.tensors = {info.name: info for info in infos}
        self._check_size()

    def tensor(self, name: str) -> NDArray[np.float32]:
        """One tensor's values in fp32, dequantised.

        Raises:
            GgufError: The file has no such tensor, or holds it in a type that the
                `gguf` package cannot dequantise.
        """
        from gguf.quants import dequantize

        raw = self.rows(name)
        info = self.tensors[name]
        try:
            values: NDArray[np.float32] = dequantize(_rows(raw, info), info.kind)
        except NotImplementedError:
            raise GgufError(
                f"{self.path}: tensor {name!r} is of type {info.kind.name}, which cannot be "
                "dequantised here; convert the model to F16, Q8_0 or Q4_K"
            ) from None
        return values.astype(np.float32, copy=False).reshape(info.shape)

    def rows(self, name: str) -> NDArray[np.uint8]:
        """One tensor's bytes as they lie in the file, read-only, `[rows, bytes of a row]`.

        Raises:
            GgufError: The file has no such tensor.
        """
        info = self.tensors.get(name)
        if info is None:
            raise GgufError(f"{self.path} has no tensor {name!r}, which is needed to run it")
        first = self._start + info.offset
        raw = np.frombuffer(self._data, np.uint8, count=info.num_bytes, offset=first)
        return raw.reshape(math.prod(info.shape[:-1]), -1)

    def _check_size(self) -> None:
        end = max((t.offset + t.num_bytes for t in self.tensors.values()), default=0)
        missing = self._start + end - len(self._data)
        if self.tensors and missing > 0:
            raise GgufError(
                f"{self.path} is cut short: its tensors need {missing} bytes more than the "
                f"{len(self._data)} there are; fetch the file again"
            )


def _rows(raw: NDArray[np.uint8], info: TensorInfo) -> NDArray[np.generic]:
    """The bytes as `dequantize` takes them: floats as such."""
    if info.kind.name == "F32":
        return raw.view(np.float32)
    if info.kind.name == "F16":
        return raw.view(np.float16)
    return raw


def _map(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise GgufError(f"there is no file {path}; give the path of a GGUF file") from None
    except ValueError:
        raise GgufError(f"{path} is empty; fetch the file again") from None
    except OSError as error:
        raise GgufError(f"{path} cannot be read: {error.strerror}") from error


class _Cursor:
    """Reads values one after another, little-endian, and never past the end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.position = 0
        self.path = path
        self._data = data

    def numbers(self, code: str, count: int = 1) -> tuple[int | float | bool, ...]:
        layout = f"<{count}{code}"
        start = self._advance(struct.calcsize(f"<{code}") * count)
        return struct.unpack_from(layout, self._data, start)

    def count(self, code: str = "Q") -> int:
        return int(self.numbers(code)[0])

    def text(self) -> str:
        length = self.count()
        start = self._advance(length)
        return str(self._data[start : start + length], "utf-8", "replace")

    def damaged(self, what: str) -> GgufError:
        return GgufError(f"{self.path} is damaged: {what}; fetch the file again")

    def _advance(self, num_bytes: int) -> int:
        start = self.position
        if start + num_bytes > len(self._data):
            raise GgufError(
                f"{self.path} is cut short: its header goes on past the {len(self._data)} "
                "bytes there are; fetch the file again"
            )
        self.position = start + num_bytes
        return start


def _preamble(path: Path, cursor: _Cursor) -> tuple[int, int]:
    """Check magic and version; return how many tensors and metadata values follow."""
    magic = bytes(int(byte) for byte in cursor.numbers("B", 4))
    if magic != b"GGUF":
        raise GgufError(f"{path} is not a GGUF file: it begins with {magic!r}, not b'GGUF'")
    version = cursor.count("I")
    if version not in _VERSIONS:
        raise GgufError(
            f"{path} is GGUF version {version}, or of a big-endian machine; versions 2 and 3 of "
            "little-endian ones can be read: convert the model again"
        )
    return cursor.count(), cursor.count()


def _refuse_parts(metadata: Metadata) -> None:
    path, kind = metadata.path, metadata.text("general.type", "model")
    count = metadata.integer("split.count", 1)
    if count > 1:
        raise GgufError(
            f"{path} is one of {count} files of a model; join them with llama.cpp's "
            "llama-gguf-split --merge"
        )
    if kind != "model":
        raise GgufError(f"{path} holds no model but {kind!r}; give the path of a model's file")


def _values(cursor: _Cursor, count: int) -> Iterator[tuple[str, Value]]:
    for _ in range(count):
        key = cursor.text()
        kind = cursor.count("I")
        yield key, _list(cursor, key) if kind == _ARRAY else _scalar(cursor, kind, key)


def _scalar(cursor: _Cursor, kind: int, key: str) -> Scalar:
    if kind == _STRING:
        return cursor.text()
    if kind not in _SCALARS:
        raise cursor.damaged(f"metadata {key!r} is of the unknown type {kind}")
    return cursor.numbers(_SCALARS[kind])[0]


def _list(cursor: _Cursor, key: str) -> list[Scalar]:
    kind = cursor.count("I")
    count = cursor.count()
    if kind in _SCALARS:
        return list(cursor.numbers(_SCALARS[kind], count))
    return [_scalar(cursor, kind, key) for _ in range(count)]


def _tensor_info(cursor: _Cursor) -> TensorInfo:
    try:
        from gguf.constants import GGML_QUANT_SIZES
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "reading a GGUF file needs gguf; install smartclient[server]"
        ) from error
    name = cursor.text()
    num_dimensions = cursor.count("I")
    if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
        raise cursor.damaged(f"tensor {name!r} has {num_dimensions} dimensions")
    # GGUF lists the fastest dimension first.
    shape = tuple(cursor.count() for _ in range(num_dimensions))[::-1]
    kind = _kind(cursor, name)
    block_len, block_bytes = GGML_QUANT_SIZES[kind]
    if min(shape) < 1 or shape[-1] % block_len:
        raise cursor.damaged(
            f"tensor {name!r} has the shape {list(shape)}, but {kind.name} needs rows of a "
            f"multiple of {block_len} values"
        )
    num_bytes = math.prod(shape) // block_len * block_bytes
    return TensorInfo(name, shape, kind, cursor.count(), num_bytes)


def _kind(cursor: _Cursor, name: str) -> GGMLQuantizationType:
    from gguf.constants import GGMLQuantizationType

    code = cursor.count("I")
    try:
        return GGMLQuantizationType(code)
    except ValueError:
        raise GgufError(
            f"{cursor.path}: tensor {name!r} is of type {code}, which the installed gguf "
            "package does not know; upgrade gguf"
        ) from None
