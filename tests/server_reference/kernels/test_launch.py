from __future__ import annotations

import gc
import re
import subprocess
import sys

import pytest
import torch

import tests.server_reference.kernels.interpreted  # noqa: F401  (before triton is imported)

from triton._C.libtriton import native_specialize_impl  # isort: skip
from triton.backends.compiler import BaseBackend  # isort: skip
from triton.runtime.jit import JITFunction  # isort: skip

from server_reference.kernels.launch import (
    LaunchError,
    check,
    chip_family,
    launch,
    recorded,
    why_not,
)
from server_reference.kernels.manifest import TARGETS, Configuration, Row, rows
from tests.layers import ROOT

CONFIGURATION = Configuration(constants=(("BLOCK", 64),), num_warps=8, num_stages=3)


def _scale_kernel(out_ptr, x_ptr, length, factor, BLOCK):
    pass


_scale_kernel.__annotations__["BLOCK"] = "tl.constexpr"


class Kernel(JITFunction):
    """Compiled, if it were: it only remembers what it was called with."""

    def __init__(self, **given):
        super().__init__(_scale_kernel, **given)
        self.runs = []

    def run(self, *arguments, **given):
        self.runs.append((arguments, given))


def on_meta(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype, device="meta")


def row_of(*arguments, **given):
    """The row that a launch with these arguments asks for."""
    with recorded("sm_90") as found:
        launch(Kernel(**given), (1,), arguments, CONFIGURATION)
    return found[0]


def arguments(**changes):
    given = {"out": on_meta(64), "x": on_meta(64), "length": 48, "factor": 0.5} | changes
    return list(given.values())


def test_a_row_names_kernel_types_and_configuration():
    assert row_of(*arguments(out=on_meta(64, dtype=torch.float32))) == Row(
        kernel=f"{__name__}:_scale_kernel",
        types=("*fp32:16", "*bf16:16", "i32:16", "fp32"),
        configuration=CONFIGURATION,
    )


def test_a_kernel_of_our_own_is_named_by_its_module_alone():
    kernel = Kernel()
    kernel.__module__ = "server_reference.kernels.norms"

    with recorded("sm_90") as found:
        launch(kernel, (1,), arguments(), CONFIGURATION)

    assert found[0].kernel == "norms:_scale_kernel"


VALUES = {
    "one": 1,
    "zero": 0,
    "multiple": 32,
    "other": 17,
    "negative": -1,
    "wide": 2**31,
    "least": -(2**31),
    "float": 1.5,
    "true": True,
    "none": None,
    "aligned": torch.empty(64),
    "shifted": torch.empty(64)[1:],
    "fp8": torch.empty(8, dtype=torch.float8_e4m3fn, device="meta"),
    "bool": torch.empty(8, dtype=torch.bool, device="meta"),
    "uint8": torch.empty(8, dtype=torch.uint8, device="meta"),
    "int64": torch.empty(8, dtype=torch.int64, device="meta"),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param({}, id="specialised"),
        pytest.param({"do_not_specialize": ["x_ptr"]}, id="not"),
        pytest.param({"do_not_specialize_on_alignment": ["x_ptr"]}, id="not-by-alignment"),
    ],
)
def test_a_type_tells_apart_what_triton_compiles_apart(value, flags):
    specialised = "do_not_specialize" not in flags
    kind, own = native_specialize_impl(BaseBackend, value, False, specialised, not flags)

    found = row_of(*arguments(x=value), **flags).types[1]

    if kind == "constexpr":  # the compiler takes the value itself
        assert found == {1: "i32:1", None: "none"}[own]
    else:
        assert found == f"{kind}:16" if own == "D" else kind


def test_a_kernel_that_follows_another_in_memory_is_not_taken_for_it():
    for flags, expected in ({}, "i32:1"), ({"do_not_specialize": ["x_ptr"]}, "i32"):
        types = [row_of(*arguments(x=1), **flags).types[1] for _ in range(100)]
        gc.collect()

        assert {*types} == {expected}


def test_what_is_recorded_is_not_run():
    kernel = Kernel()

    with recorded("sm_90"):
        launch(kernel, (1,), arguments(), CONFIGURATION)

    assert kernel.runs == []


def test_a_launch_that_was_not_compiled_beforehand_is_an_error():
    kernel = Kernel()

    with pytest.raises(LaunchError, match="num_warps=8"):
        launch(kernel, (1,), arguments(), CONFIGURATION)

    assert kernel.runs == []


def test_it_runs_where_compiling_at_run_time_is_allowed(monkeypatch):
    monkeypatch.setenv("SMARTCLIENT_JIT", "1")
    kernel, given = Kernel(), arguments()

    launch(kernel, (3,), given, CONFIGURATION)

    assert kernel.runs == [
        (
            tuple(given),
            {"grid": (3,), "warmup": False, "BLOCK": 64, "num_warps": 8, "num_stages": 3},
        )
    ]


def test_what_may_be_launched_once_may_be_launched_again(monkeypatch):
    kernel = Kernel()
    monkeypatch.setenv("SMARTCLIENT_JIT", "1")
    launch(kernel, (1,), arguments(), CONFIGURATION)
    monkeypatch.delenv("SMARTCLIENT_JIT")

    launch(kernel, (1,), arguments(length=64), CONFIGURATION)
    with pytest.raises(LaunchError):
        launch(kernel, (1,), arguments(length=65), CONFIGURATION)

    assert len(kernel.runs) == 2


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_manifest_has_may_be_launched(target):
    for row in rows(target):
        check(row, target)


def test_the_error_names_what_comes_nearest():
    known = rows("sm_90")[0]
    constants = dict(known.configuration.constants)
    changed = {**constants, "ANOTHER": 5}
    row = Row(
        kernel=known.kernel,
        types=known.types,
        configuration=Configuration(
            constants=tuple(changed.items()), num_warps=known.configuration.num_warps
        ),
    )

    with pytest.raises(LaunchError, match=r"nearest: .*ANOTHER=None") as caught:
        check(row, "sm_90")

    assert (caught.value.row, caught.value.target) == (row, "sm_90")
    assert "SMARTCLIENT_JIT=1" in str(caught.value)


def test_a_chip_that_nothing_is_compiled_for_is_said_to_be_one():
    with pytest.raises(LaunchError, match="nothing is compiled for sm_89, only for sm_80"):
        check(rows("sm_80")[0], "sm_89")


def test_a_kernel_without_rows_is_said_to_be_one():
    row = row_of(*arguments())

    with pytest.raises(LaunchError, match="no row of this kernel for sm_90"):
        check(row, "sm_90")


def test_a_device_without_a_gpu_is_a_family_of_its_own():
    assert chip_family(torch.device("cpu")) == "cpu"


def test_what_is_recorded_is_for_the_chip_that_is_asked_for():
    with recorded("gfx942"):
        assert chip_family(torch.device("meta")) == "gfx942"


def test_the_interpreter_launches_everything():
    """In a process of its own: an interpreter that was imported stays one."""
    code = (
        "import torch; from tests.server_reference.kernels import sample_kernels as s;"
        "from tests.server_reference.kernels import sample_rows as r;"
        "from server_reference.kernels.launch import launch; x = torch.ones(5);"
        "launch(s._scale_kernel, (1,), (x, x.clone(), 5, 2.5), r.SCALE.configuration);"
        "print(x.tolist())"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"TRITON_INTERPRET": "1", "TRITON_DEFAULT_FP_FUSION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == str([2.5] * 5)


GPU = torch.device("cuda")


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_run_on_the_chips_that_they_are_for(target):
    with recorded(target):
        assert why_not(GPU, version="3.6.0") is None
        assert why_not(GPU, version="3.10.0+git1") is None


@pytest.mark.parametrize(
    ("target", "options", "why"),
    [
        pytest.param("sm_90", {"version": "3.5.1"}, r"triton 3\.6 or later, not 3\.5\.1", id="old"),
        pytest.param("sm_89", {}, "none for sm_89", id="another-chip"),
        pytest.param("sm_80", {"is_fp8": True}, "sm_80 has no fp8; use kv_dtype='auto'", id="fp8"),
    ],
)
def test_why_kernels_cannot_run_is_said(target, options, why):
    with recorded(target):
        found = why_not(GPU, **options)

    assert found is not None
    assert re.search(why, found)


@pytest.mark.parametrize("target", ["sm_90", "sm_100", "gfx942"])
def test_keys_are_held_in_fp8_where_there_is_a_row_for_it(target):
    with recorded(target):
        assert why_not(GPU, is_fp8=True) is None
