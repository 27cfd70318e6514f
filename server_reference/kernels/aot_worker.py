"""Compile rows that come in as lines of JSON, and answer each with what came of it.

This is a process of its own, because Triton decides once, at import, whether it compiles or
interprets; and because a compiler that crashes takes its process with it.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from .aot_report import Report, of_amd, of_nvidia
from .manifest import Row

__all__ = ["compile_row", "kernel_of", "key_of", "main"]

_LISTS_CONSTANTS = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 7)  # 3.6 does not
# Anything of these types; nor of a parameter that is not specialised.
_NEVER_PROMISED = ("fp32", "u1", *(() if _LISTS_CONSTANTS else ("constexpr",)))


def main() -> None:
    """Say which compiler it is, then answer until standard input ends."""
    answers = sys.stdout
    print(json.dumps({"triton": triton.__version__}), file=answers, flush=True)
    for line in sys.stdin:
        with redirect_stdout(io.StringIO()):  # compilers print
            answer = _answer(json.loads(line))
        print(json.dumps(answer), file=answers, flush=True)


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Nothing but the key, where it is the one that is known already."""
    row, target, begun = Row.of_json(asked["row"]), asked["target"], time.monotonic()
    try:
        key = key_of(row, target)
        if key == asked["key"]:
            return {"key": key}
        report = compile_row(row, target)
    except Exception as error:  # whatever a compiler raises is said in the table
        return {"error": _short(error)}
    return {"key": key, "report": asdict(report), "seconds": time.monotonic() - begun}


def _short(error: Exception) -> str:
    """Triton's errors begin with the source, and end with what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"


def kernel_of(row: Row) -> Any:
    """The `triton.jit` function that a row names."""
    module, _, name = row.kernel.partition(":")
    module = module if "." in module else f"{__package__}.{module}"
    return getattr(importlib.import_module(module), name)


def key_of(row: Row, target: str) -> str:
    """Names a result by all that it depends on: source, compiler, row, target."""
    parts = [kernel_of(row).cache_key, triton.__version__, target, json.dumps(row.as_json())]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]


def compile_row(row: Row, target: str) -> Report:
    """Compile it, and read what came out.

    Raises:
        ValueError: The row does not fit the kernel's parameters.
        Exception: Whatever Triton and the assemblers raise.
    """
    chip = _chip(target)
    own = row.configuration
    log = io.StringIO()
    with redirect_stdout(log):
        knobs.nvidia.dump_ptxas_log = True
        compiled = triton.compile(
            _source(row),
            target=chip,
            options={"num_warps": own.num_warps, "num_stages": own.num_stages},
        )
    code, shared = compiled.asm, compiled.metadata.shared
    if chip.backend == "hip":
        return of_amd(
            ttir=code["ttir"], ttgir=code["ttgir"], amdgcn=code["amdgcn"], shared_bytes=shared
        )
    return of_nvidia(
        ttir=code["ttir"],
        ttgir=code["ttgir"],
        ptx=code["ptx"],
        log=log.getvalue(),
        shared_bytes=shared,
        tensor_columns=getattr(compiled.metadata, "tmem_size", 0) or 0,
    )


def _chip(target: str) -> GPUTarget:
    if target.startswith("gfx"):
        return GPUTarget("hip", target, 64)
    return GPUTarget("cuda", int(target.removeprefix("sm_")), 32)


def _source(row: Row) -> ASTSource:
    """The kernel with its types, as a launch of the row would have them."""
    kernel = kernel_of(row)
    constants: dict[str, Any] = dict(row.configuration.constants)
    named = [one.name for one in kernel.params if one.name not in constants]
    if len(named) != len(row.types) or not constants.keys() <= set(kernel.arg_names):
        raise ValueError(
            f"{row.kernel} takes {', '.join(kernel.arg_names)}, but the row has {len(row.types)} "
            f"types and the constants {', '.join(constants)}"
        )
    types = dict(zip(named, row.types, strict=True))
    signature: dict[str, str] = {}
    attributes: dict[tuple[int], list[list[Any]]] = {}
    for at, one in enumerate(kernel.params):
        kind, _, promise = types.get(one.name, "constexpr").partition(":")
        if kind == "none" or promise == "1":
            constants[one.name] = 1 if promise else None
            kind = "constexpr"
        signature[one.name] = kind
        # Also where there is none: as a launch has it, so that it finds what is compiled here.
        if not one.do_not_specialize and kind not in _NEVER_PROMISED:
            attributes[at,] = [["tt.divisibility", 16]] if promise == "16" else []
    return ASTSource(kernel, signature, constants, attributes)


if __name__ == "__main__":
    main()
