from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from server_reference.kernels.aot import main
from server_reference.kernels.aot_processes import CompilerError, compile_all
from server_reference.kernels.manifest import TARGETS, Configuration, Row
from tests.layers import ROOT
from tests.server_reference.kernels.sample_rows import (
    CRASHING,
    EXACT,
    LARGE,
    PLAIN,
    PRODUCT,
    SCALE,
    SPILLING,
    written,
)

JOBS = [
    *[(target, row) for target in TARGETS for row in (PRODUCT, EXACT)],
    ("sm_90", SCALE),
    ("sm_90", SPILLING),
    ("sm_80", LARGE),
    ("gfx942", PLAIN),
    ("sm_90", CRASHING),
]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of this module's own; and an environment in which kernels would be interpreted."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("SMARTCLIENT_CACHE", str(folder))
        patch.setenv("TRITON_INTERPRET", "1")
        patch.setenv("PYTHONPATH", str(ROOT))
        yield folder


@pytest.fixture(scope="module")
def results(cache):
    found = compile_all(JOBS)[1]
    return {(one.target, one.row): one for one in found}


@pytest.mark.parametrize(
    ("target", "instruction"),
    [("sm_80", "mma"), ("sm_90", "wgmma"), ("sm_100", "tcgen05"), ("gfx942", "mfma")],
)
def test_a_product_is_on_the_matrix_unit_of_every_chip(results, target, instruction):
    result = results[target, PRODUCT]

    assert result.wrongs == ()
    assert set(result.report.matrix) == {instruction}
    assert result.report.products == 1


@pytest.mark.parametrize("target", TARGETS)
def test_a_product_loads_16_bytes_at_once_where_rows_are_aligned(results, target):
    assert set(results[target, PRODUCT].report.loads) == {16}


@pytest.mark.parametrize("target", TARGETS)
def test_an_exact_product_is_exempt(results, target):
    result = results[target, EXACT]

    assert result.wrongs == ()
    assert (result.report.products, result.report.exact_products) == (0, 1)


@pytest.mark.parametrize(
    ("target", "row", "said"),
    [
        pytest.param("sm_90", SPILLING, "bytes of registers", id="spill"),
        pytest.param("sm_80", LARGE, "bytes of shared memory, of 166,912", id="shared-memory"),
        pytest.param("gfx942", PLAIN, "without a matrix instruction", id="no-matrix-unit"),
        pytest.param("sm_90", CRASHING, "range must be a power of 2", id="no-kernel"),
    ],
)
def test_what_a_row_may_not_be_is_said(results, target, row, said):
    (wrong,) = results[target, row].wrongs

    assert said in wrong


def test_the_status_is_1_and_the_table_says_what_is_wrong(cache, results, tmp_path, capsys):
    status = main(["--manifest", str(written(tmp_path / "rows.json", JOBS))])

    printed = capsys.readouterr().out
    assert status == 1
    assert "sm_90, triton" in printed
    assert "wrong: spills" in printed
    assert "wgmma×4" in printed


def test_the_status_is_0_where_nothing_is_wrong(cache, results, tmp_path, capsys):
    path = written(tmp_path / "rows.json", JOBS)

    status = main(["--manifest", str(path), "--target", "sm_90", "--kernel", "_scale_kernel"])

    printed = capsys.readouterr().out
    assert status == 0
    assert printed.count("num_warps") == 1
    assert "1 rows, 0 wrong" in printed


def test_what_was_compiled_is_known_again(cache, results, tmp_path, capsys):
    path = written(tmp_path / "rows.json", [("sm_90", PRODUCT)])

    main(["--manifest", str(path), "--json"])

    (told,) = json.loads(capsys.readouterr().out)
    assert told["seconds"] is None
    assert told["report"]["matrix"] == results["sm_90", PRODUCT].report.matrix


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda entry: None, id="nothing"),
        pytest.param(lambda entry: {"key": entry["key"]}, id="no-report"),
        pytest.param(lambda entry: entry | {"report": None}, id="empty-report"),
        pytest.param(lambda entry: entry | {"report": {"loads": {}}}, id="part-of-a-report"),
        pytest.param(lambda entry: entry | {"report": {"loads": {"x": 1}}}, id="no-number"),
    ],
)
def test_what_the_cache_holds_and_nobody_can_read_is_compiled_again(cache, results, damage):
    (path,) = (cache / "kernels").glob("triton-*.json")
    known = json.loads(path.read_bytes())
    path.write_text(json.dumps({name: damage(entry) for name, entry in known.items()}))

    (found,) = compile_all([("sm_90", SCALE)])[1]

    path.write_text(json.dumps(known))
    assert found.seconds is not None
    assert found.report == results["sm_90", SCALE].report


@pytest.mark.parametrize("before", ["", "[]", "{", "\0"])
def test_a_cache_that_is_none_is_made_anew(before, monkeypatch, tmp_path):
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path))
    compile_all([("sm_90", SCALE)])
    (path,) = (tmp_path / "kernels").glob("triton-*.json")
    path.write_text(before)

    seconds = [compile_all([("sm_90", SCALE)])[1][0].seconds for _ in range(2)]

    assert [one is None for one in seconds] == [False, True]


def test_a_cache_that_cannot_be_written_to_costs_only_time(monkeypatch, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path / "file"))

    (found,) = compile_all([("sm_90", SCALE)])[1]

    assert found.wrongs == ()
    assert "compiled rows cannot be kept at" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["--kernel", "nosuch"], "no row is of 'nosuch'; there are rows of act", id="kernel"
        ),
        pytest.param(["--manifest", "/nonexistent"], "No such file", id="file"),
    ],
)
def test_what_is_not_there_is_said(arguments, said, capsys):
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[]", "no such row", id="empty"),
        pytest.param("{", "holds no rows as manifest.json does: JSONDecodeError", id="no-json"),
        pytest.param("7", "holds no rows", id="number"),
        pytest.param('{"a": 1}', "holds no rows", id="names"),
        pytest.param('[{"kernel": "norms:x"}]', "KeyError('types')", id="part-of-a-row"),
    ],
)
def test_a_manifest_that_is_none_is_said_to_be_none(text, said, tmp_path, capsys):
    path = tmp_path / "rows.json"
    path.write_text(text)

    assert main(["--manifest", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_a_manifest_for_other_chips_is_said_to_be_one(tmp_path, capsys):
    path = written(tmp_path / "rows.json", [("sm_77", SCALE)])

    assert main(["--manifest", str(path)]) == 2
    assert "names sm_77; only sm_80, sm_90, sm_100, gfx942 are" in capsys.readouterr().err


@pytest.mark.parametrize("jobs", ["0", "-3", "x"])
def test_so_many_compilers_there_cannot_be(jobs, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--jobs", jobs])

    assert "argument --jobs" in capsys.readouterr().err


SOURCE = """
import triton
import triton.language as tl

@triton.jit
def one(out_ptr, x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) + 1)
"""
ONE = Row(
    kernel="of_a_test.kernels:one",
    types=("*fp32:16", "*fp32:16"),
    configuration=Configuration(constants=(("BLOCK", 128),), num_warps=1),
)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder of kernels that compilers find."""
    folder = tmp_path / "of_a_test"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return folder


def test_another_source_is_compiled_again(cache, package):
    (package / "kernels.py").write_text(SOURCE)
    first = compile_all([("sm_90", ONE)])[1]
    again = compile_all([("sm_90", ONE)])[1]
    (package / "kernels.py").write_text(SOURCE.replace("+ 1)", "+ 22)"))
    other = compile_all([("sm_90", ONE)])[1]

    assert [one[0].seconds is None for one in (first, again, other)] == [False, True, False]


def test_a_compiler_that_dies_takes_one_row_with_it(cache, package):
    (package / "kernels.py").write_text(SOURCE)
    (package / "deadly.py").write_text("import os, sys\nsys.stderr.write('no!')\nos._exit(3)\n")
    deadly = replace(ONE, kernel="of_a_test.deadly:one")

    died, lived = compile_all([("sm_90", deadly), ("sm_90", ONE)], at_once=1)[1]

    assert died.wrongs == ("does not compile: the compiler ended with status 3: no!",)
    assert lived.wrongs == ()


def test_types_that_do_not_fit_the_kernel_are_said(cache, package):
    (package / "kernels.py").write_text(SOURCE)

    (found,) = compile_all([("sm_90", replace(ONE, types=("*fp32:16",)))])[1]

    assert "takes out_ptr, x_ptr, BLOCK, but the row has 1 types" in found.wrongs[0]


def test_without_a_compiler_the_error_says_so(cache):
    with pytest.raises(CompilerError, match=r"does not start .* needs Linux"):
        compile_all([("sm_90", ONE)], python="/bin/false")


LAUNCHED = """
import sys
import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from of_a_test.kernels import one

class Hopper:
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0
    def get_current_target(self): return GPUTarget("cuda", 90, 32)

def tell(*, cache_hit, **_): print(cache_hit)

driver.set_active(Hopper())
knobs.compilation.listener = tell
one.warmup(torch.empty(128), torch.empty(128), BLOCK=128, num_warps=1, num_stages=2, grid=(1,))
"""


def test_what_is_kept_is_what_a_launch_looks_for(cache, package, tmp_path, monkeypatch):
    """As Triton's own launcher goes about it, up to where it needs a GPU."""
    (package / "kernels.py").write_text(SOURCE)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.delenv("TRITON_INTERPRET")
    compile_all([("sm_90", ONE)], keep=True)

    done = subprocess.run(
        [sys.executable, "-c", LAUNCHED], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["True"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_leaves_nothing_behind(how, tmp_path):
    environment = {"TMPDIR": str(tmp_path), "SMARTCLIENT_CACHE": str(tmp_path / "cache")}
    process = subprocess.Popen(
        [sys.executable, "-m", "server_reference.kernels.aot", "--target", "sm_90"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not [*tmp_path.glob("smartclient-aot-*/*")]:  # the first row is being compiled
        assert process.poll() is None
        time.sleep(0.05)

    process.send_signal(how)

    assert process.wait() == 130
    assert not [*tmp_path.glob("smartclient-aot-*")]
