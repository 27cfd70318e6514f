"""Which kernels are compiled beforehand, and how: the committed rows of each target.

The rows are in `manifest.json`; `python -m tools.kernel_manifest` writes what the kernels'
wrappers launch for the supported models.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

__all__ = ["MANIFEST", "TARGETS", "Configuration", "Constant", "Row", "Target", "read", "rows"]

Target: TypeAlias = Literal["sm_80", "sm_90", "sm_100", "gfx942"]
"""Of A100; H100 and H200; B200; MI300X."""

TARGETS: tuple[Target, ...] = get_args(Target)

Constant: TypeAlias = int | float | bool | str | None

MANIFEST = Path(__file__).with_name("manifest.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How a kernel is compiled.

    Args:
        constants: Its `tl.constexpr` parameters by name.
        num_warps: Of 32 threads (64 on AMD), which share a program.
        num_stages: Loads in flight ahead of the arithmetic.
    """

    constants: tuple[tuple[str, Constant], ...]
    num_warps: int = 4
    num_stages: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All that a compiled kernel depends on besides its source.

    Args:
        kernel: `module:function`; the module is one of this package, or has a dot in its name.
        types: Of each parameter that is no constant, in order: `*bf16` points to bf16, `i32` is
            an integer, `none` is absent. `:16` after it promises a multiple of 16, and `i32:1`
            that it is 1, which the compiler makes use of.
    """

    kernel: str
    types: tuple[str, ...]
    configuration: Configuration

    def as_json(self) -> dict[str, Any]:
        """What `of_json` takes."""
        return {
            "kernel": self.kernel,
            "types": " ".join(self.types),
            "constants": dict(self.configuration.constants),
            "num_warps": self.configuration.num_warps,
            "num_stages": self.configuration.num_stages,
        }

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> Row:
        """The row that was written; other fields than its own are left alone."""
        return cls(
            kernel=fields["kernel"],
            types=tuple(fields["types"].split()),
            configuration=Configuration(
                constants=tuple(fields["constants"].items()),
                num_warps=fields["num_warps"],
                num_stages=fields["num_stages"],
            ),
        )

    def items(self) -> dict[str, Any]:
        """Everything but the kernel, by name: what two rows can differ in."""
        own = self.configuration
        return {
            "types": " ".join(self.types),
            **dict(own.constants),
            "num_warps": own.num_warps,
            "num_stages": own.num_stages,
        }


def rows(target: str) -> tuple[Row, ...]:
    """The committed rows of a target, in their order; none where it is not one of `TARGETS`."""
    return tuple(row for row, targets in _committed() if target in targets)


def read(path: Path) -> list[tuple[Row, tuple[str, ...]]]:
    """Rows, each with its targets, from a file such as `manifest.json`.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no such file, or names another target than `TARGETS`.
    """
    try:
        listed: Iterable[Mapping[str, Any]] = json.loads(path.read_bytes())
        found = [(Row.of_json(fields), tuple(fields["targets"].split())) for fields in listed]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} holds no rows as {MANIFEST.name} does: {error!r}") from error
    unknown = {target for _, targets in found for target in targets} - {*TARGETS}
    if unknown:
        raise ValueError(
            f"{path} names {', '.join(sorted(unknown))}; only {', '.join(TARGETS)} are"
        )
    return found


@cache
def _committed() -> tuple[tuple[Row, tuple[str, ...]], ...]:
    return tuple(read(MANIFEST))
