from __future__ import annotations

from dataclasses import asdict, replace
from json import dumps, loads

import pytest

from server_reference.kernels.aot_report import Report, of_amd, of_nvidia, wrongs

FINE = Report(
    registers=128,
    spilled_bytes=0,
    shared_bytes=64 * 1024,
    matrix={"wgmma": 8},
    loads={16: 4},
    products=2,
)

LOG = """
ptxas info    : Function properties for _k
    24 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 96 registers, used 1 barriers
"""

PTX = """
	ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	@%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0 ];
	@!%p2 ld.global.L1::evict_last.L2::cache_hint.v4.b32 { %r1, %r2 }, [ %rd2 + 0 ], %rd3;
	ld.global.b16 { %rs2 }, [ %rd1 + 0 ];
	ld.global.nc.b8 %r1, [ %rd1 + 0 ];
	ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];
	st.global.v4.b32 [ %rd1 + 0 ], { %r1, %r2, %r3, %r4 };
	cp.async.cg.shared.global [ %r17 + 0 ], [ %rd8 + 0 ], 0x10, %r8;
	@%p1 cp.async.ca.shared.global [ %r17 + 0 ], [ %rd8 + 0 ], 4, %r8;
	cp.async.commit_group;
	mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r1};
	@%p1 tcgen05.mma.cta_group::1.kind::f16 [ %r1 ], %rd1, %rd2, %r2, %p2;
	tcgen05.ld.sync.aligned.32x32b.x64.b32 {%r1}, [%r2];
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, 1, 1, 1, 0, 0;
	wgmma.wait_group.sync.aligned 0;
"""

AMD = """
	global_load_dwordx4 v[0:3], v[4:5], off
	buffer_load_dwordx2 v[0:1], v2, s[0:3], 0 offen
	global_load_dword v1, v[2:3], off
	global_load_ushort v1, v[2:3], off
	buffer_load_ubyte v1, v2, s[0:3], 0 offen
	ds_read_b128 v[0:3], v1
	global_store_dwordx4 v[0:1], v[2:5], off
	v_mfma_f32_32x32x8_bf16 v[0:15], v[16:17], v[18:19], v[0:15]
    .private_segment_fixed_size: 0
    .sgpr_spill_count: 3
    .vgpr_count:     106
    .vgpr_spill_count: 0
"""

NEEDS_A_UNIT = (
    "%acc = tt.dot %a, %b, %c, inputPrecision = tf32 : "
    "tensor<16x64xbf16> * tensor<64x16xbf16> -> tensor<16x16xf32> loc(#loc)\n"
)
EXACT = (
    "%acc = tt.dot %a, %b, %c : "
    "tensor<16x64xf32> * tensor<64x16xf32> -> tensor<16x16xf32> loc(#loc)\n"
)
LAYOUTS = """
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 16]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1]}>
"""


def a_product(kind, *, layout, precision=", inputPrecision = tf32"):
    """As it stands once layouts are chosen."""
    a, b = (
        f"tensor<16x64x{kind}, #ttg.dot_op<{{opIdx = {n}, parent = {layout}}}>>" for n in (0, 1)
    )
    return f"%d = tt.dot %a, %b, %c{precision} : {a} * {b} -> tensor<16x16xf32, {layout}> loc(#l)\n"


def read(*, ttir="", ttgir="", ptx="", log=LOG):
    return of_nvidia(ttir=ttir, ttgir=ttgir, ptx=ptx, log=log, shared_bytes=1024, tensor_columns=64)


def read_amd(amdgcn=AMD, ttir="", ttgir=""):
    return of_amd(ttir=ttir, ttgir=ttgir, amdgcn=amdgcn, shared_bytes=1024)


def test_registers_and_spills_are_what_the_assembler_said():
    report = read()

    assert (report.registers, report.spilled_bytes) == (96, 20)


def test_a_log_that_says_nothing_is_an_error():
    with pytest.raises(ValueError, match="names no registers"):
        read(log="ptxas info : 0 bytes gmem")


def test_loads_are_counted_by_their_width():
    assert read(ptx=PTX).loads == {16: 3, 8: 1, 4: 1, 2: 1, 1: 1}


def test_matrix_instructions_are_counted_by_name_and_nothing_that_only_waits():
    assert read(ptx=PTX).matrix == {"mma": 1, "tcgen05": 1, "wgmma": 1}


def test_amd_code_is_read_by_its_own_names():
    report = read_amd()

    assert report.loads == {16: 1, 8: 1, 4: 1, 2: 1, 1: 1}
    assert report.matrix == {"mfma": 1}
    assert report.registers == 106


def test_scalar_registers_kept_in_vector_registers_are_no_spill_to_memory():
    assert read_amd().spilled_bytes == 0


def test_vector_registers_in_memory_are_a_spill():
    code = AMD.replace("vgpr_spill_count: 0", "vgpr_spill_count: 5")

    assert read_amd(code).spilled_bytes == 20


@pytest.mark.parametrize(
    ("ttir", "ttgir", "plain"),
    [
        pytest.param(NEEDS_A_UNIT, a_product("bf16", layout="#mma"), 0, id="on-the-unit"),
        pytest.param(NEEDS_A_UNIT, a_product("bf16", layout="#blocked"), 1, id="not-on-it"),
        pytest.param(
            NEEDS_A_UNIT,
            a_product("f32", layout="#blocked", precision=""),
            1,
            id="widened-on-the-way",
        ),
        pytest.param(
            NEEDS_A_UNIT + NEEDS_A_UNIT,
            a_product("bf16", layout="#mma") + a_product("bf16", layout="#blocked"),
            1,
            id="one-of-two",
        ),
        pytest.param(EXACT, a_product("f32", layout="#blocked", precision=""), 0, id="exempt"),
        pytest.param(
            EXACT + NEEDS_A_UNIT,
            a_product("f32", layout="#blocked", precision="") + a_product("bf16", layout="#mma"),
            0,
            id="exempt-beside-another",
        ),
    ],
)
def test_a_product_is_followed_to_what_it_was_compiled_to(ttir, ttgir, plain):
    report = read(ttir=ttir, ttgir=LAYOUTS + ttgir)

    assert report.plain_products == plain
    assert report.products == ttir.count("bf16>") // 2
    assert report.exact_products == ttir.count("f32> *")


def test_a_row_may_be_fine():
    assert wrongs(FINE, "sm_90") == []


@pytest.mark.parametrize(
    ("change", "target", "said"),
    [
        pytest.param({"spilled_bytes": 4}, "sm_90", "spills 4 bytes of registers", id="spill"),
        pytest.param(
            {"shared_bytes": 65537}, "gfx942", "65,537 bytes of shared memory, of 65,536", id="amd"
        ),
        pytest.param({"shared_bytes": 232449}, "sm_90", "of 232,448 on sm_90", id="hopper"),
        pytest.param({"shared_bytes": 166913}, "sm_80", "of 166,912 on sm_80", id="ampere"),
        pytest.param({"tensor_columns": 513}, "sm_100", "513 columns of tensor memory", id="tmem"),
        pytest.param({"plain_products": 1}, "sm_90", "1 of 2 products without", id="one-product"),
        pytest.param({"matrix": {}}, "sm_90", "2 of 2 products without", id="no-instruction"),
    ],
)
def test_what_a_row_may_not_be(change, target, said):
    found = wrongs(replace(FINE, **change), target)

    assert len(found) == 1
    assert said in found[0]


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_exact_products_need_no_matrix_instruction(target):
    assert wrongs(replace(FINE, products=0, exact_products=2, matrix={}), target) == []


def test_a_report_survives_json():
    assert Report.of_json(loads(dumps(asdict(FINE)))) == FINE
