"""Choose what each product is computed in: by what the file holds, what works, what is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from ..config import EngineConfig, Quantization
from ..kernels.forms import FORMS, group_of, row_counts, why_not
from ..kernels.linear import DenseLinear, Linear, PackedLinear, SwitchedLinear, TiledLinear
from ..kernels.quantized import GROUP, Form, Int4Linear, Int8Linear, packed
from .transformer import ModelConfig, weight_shapes

__all__ = [
    "NumericsError",
    "asked_forms",
    "check_config",
    "check_rows",
    "computes_quantized",
    "device_of",
    "kv_dtype_of",
    "linears_of",
    "matrices",
    "pad_rows",
    "quantized",
]

_PRODUCTS = {"qkv", "attention_out", "gate_up", "down", "head"}
_TILE_ROWS = 16
_CHECKED = (1, 2, 3, 5, 15, 16, 17, 33, 48, 100, 256)
_WIDE = 32_768


class NumericsError(ValueError):
    """The numerics asked for cannot be had on this machine, or not together."""


def device_of(config: EngineConfig) -> torch.device:
    """Where `config` has a model run: `tiny`, for which no GPU has kernels, on a CPU unless asked.

    Raises:
        NumericsError: There is no such device.
    """
    has_gpu = torch.cuda.is_available()
    if config.device == "cuda" and not has_gpu:
        raise NumericsError(
            f"device='cuda' needs a GPU that torch {torch.__version__} can use, and there is "
            f"none; use device='cpu', or install a torch for the GPU's driver"
        )
    is_taken = config.device == "auto" and config.model != "tiny"
    return torch.device("cuda" if config.device == "cuda" or (has_gpu and is_taken) else "cpu")


def kv_dtype_of(config: EngineConfig, dtype: torch.dtype) -> torch.dtype:
    """What keys and values are held in, of a model whose weights are of `dtype`."""
    return torch.float8_e4m3fn if config.kv_dtype == "fp8" else dtype


def check_config(config: EngineConfig) -> None:
    """Raise `NumericsError` for options that contradict each other."""
    device = device_of(config)
    is_cpu = device.type == "cpu"
    if not is_cpu and (why := _why_no_kernels(device, config)):
        raise NumericsError(f"this GPU cannot be used: {why}; or use device='cpu'")
    if config.kv_dtype == "fp8" and is_cpu:
        raise NumericsError("kv_dtype='fp8' needs a GPU; use kv_dtype='auto' on a CPU")
    if config.numerics == "deterministic" and not is_cpu:
        raise NumericsError(
            "numerics='deterministic' needs device='cpu': on a GPU the products of a row vary "
            "with the rows beside it"
        )
    option = "one_copy" if config.one_copy else f"quantize={config.quantize!r}"
    if (config.one_copy or config.quantize) and not computes_quantized(config):
        raise NumericsError(
            f"{option} needs dtype='bf16', numerics='fast' and a CPU, not "
            f"dtype={config.dtype!r}, numerics={config.numerics!r} and "
            f"{device_of(config).type}: those compute in dequantised weights alone"
        )


def _why_no_kernels(device: torch.device, config: EngineConfig) -> str | None:
    try:
        from ..kernels import launch  # which needs triton
    except ImportError as error:
        return f"kernels need triton ({error}); install it"
    return launch.why_not(device, is_fp8=config.kv_dtype == "fp8")


def computes_quantized(config: EngineConfig) -> bool:
    """Whether what is quantised is computed so: else it is dequantised when it is loaded."""
    is_fast = config.dtype == "bf16" and config.numerics == "fast"
    return is_fast and device_of(config).type == "cpu"


def pad_rows(config: EngineConfig) -> int:
    """What the row count of fp32 products is padded to a multiple of."""
    return _TILE_ROWS if config.numerics == "deterministic" else 1


def matrices(model: ModelConfig) -> dict[str, str]:
    """The products of a model, and the weight of each: a tied head's is the embedding."""
    found = {name: name for name in weight_shapes(model) if name.rpartition(".")[2] in _PRODUCTS}
    return found | {"head": "embedding" if model.tie_embeddings else "head"}


def asked_forms(
    model: ModelConfig, quantize: Quantization | None, held: Mapping[str, Form]
) -> dict[str, Form]:
    """What each quantised product is computed in.

    Args:
        quantize: For what the file holds unquantised; the head gets no less than 8 bits.
        held: What the file holds quantised.
    """
    forms: dict[str, Form] = {}
    for name, weight in matrices(model).items():
        form = held.get(name, "int8" if quantize and name == "head" else quantize)
        if form is not None:
            fits_int4 = all(size % GROUP == 0 for size in weight_shapes(model)[weight])
            forms[name] = form if fits_int4 else "int8"
    return forms


def quantized(
    config: EngineConfig,
    model: ModelConfig,
    weights: dict[str, Tensor],
    forms: Mapping[str, Form],
    read: Callable[[str], tuple[Tensor, Tensor] | None] = lambda name: None,
) -> dict[str, Tensor]:
    """Add to dense weights what `linears_of` wants of the products that are in `forms`.

    Args:
        read: Gives a product's weights and scales as the file holds them, or `None`.
    """
    sources = matrices(model)
    for name, form in forms.items():
        own = read(name) or packed(weights[sources[name]], form)
        weights[f"{name}.weights"], weights[f"{name}.scales"] = own
        if config.one_copy and sources[name] != "embedding":
            del weights[sources[name]]
    return weights


def linears_of(
    config: EngineConfig,
    model: ModelConfig,
    weights: Mapping[str, Tensor],
    forms: Mapping[str, Form],
) -> tuple[dict[str, Linear], str]:
    """The products that `config` asks for, and a line that says what they are.

    Args:
        weights: Dense matrices under their names; of those in `forms`, what `packed` gives
            under `name.weights` and `name.scales`, and with `one_copy` no dense matrix.

    Raises:
        NumericsError: Rows would depend on each other where they must not.
    """
    many = {
        name: _dense(config, weights[weight])
        for name, weight in matrices(model).items()
        if not (config.one_copy and name in forms)
    }
    if not computes_quantized(config):
        if config.numerics == "deterministic":
            check_rows(config, {(one.out_features, one.in_features) for one in many.values()})
        rows = f", {_TILE_ROWS} rows at a time" * (config.numerics == "deterministic")
        kv = config.dtype if config.kv_dtype == "auto" else config.kv_dtype
        device = device_of(config)
        where = "" if device.type == "cpu" else f" on {torch.cuda.get_device_name(device)}"
        return many, f"{config.numerics}: {config.dtype}{rows}{where}; KV {kv}"
    few = {
        name: _quantized(form, name, weights)
        for name, form in forms.items()
        if config.one_copy or not why_not(form)
    }
    most = row_counts(forms, few, many)
    linears = many | few
    for name in few.keys() & many.keys():
        switch = most[group_of(forms[name], few[name])]
        linears[name] = SwitchedLinear(few[name], many[name], most=switch)
    return linears, _line(config, linears, {name: forms[name] for name in few}, most)


def _dense(config: EngineConfig, weight: Tensor) -> Linear:
    if config.dtype == "fp32" or weight.device.type != "cpu":
        return DenseLinear(weight, pad_rows=pad_rows(config))
    packs = not config.one_copy and not why_not("bf16")
    linear = PackedLinear(weight) if packs else DenseLinear(weight)
    # bf16 products change kernels between 32 and 48 rows: padding would not be enough.
    is_exact = config.numerics == "deterministic"
    return TiledLinear(linear, rows=_TILE_ROWS) if is_exact else linear


def _quantized(form: Form, name: str, weights: Mapping[str, Tensor]) -> Linear:
    own = weights[f"{name}.weights"], weights[f"{name}.scales"]
    if form == "int4":
        return Int4Linear(*own)
    return Int8Linear(*own, out_dtype=torch.float32 if name == "head" else torch.bfloat16)


def _line(
    config: EngineConfig,
    linears: Mapping[str, Linear],
    forms: Mapping[str, Form],
    most: Mapping[str, int],
) -> str:
    dense = "bf16" if config.one_copy or why_not("bf16") else "packed bf16"
    counts: dict[str, int] = {}
    for name, linear in linears.items():
        group = group_of(forms.get(name, dense), linear)
        if group in most:
            group += f" up to {most[group]} rows, {dense} above"
        counts[group] = counts.get(group, 0) + 1
    text = "; ".join(f"{count} x {group}" for group, count in counts.items()) + "; KV bf16"
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        text += "; this CPU has no bf16 arithmetic: dtype='fp32' may be faster"
    failing = {form: why for form in FORMS if (why := why_not(form))}
    return f"fast: {text}" + "".join(f"; no {form} here: {why}" for form, why in failing.items())


def check_rows(config: EngineConfig, shapes: Iterable[tuple[int, int]]) -> None:
    """Check that a row's numbers do not depend on how many others there are, nor on its place.

    Raises:
        NumericsError: They do, for one of these shapes.
    """
    chance = torch.Generator().manual_seed(0)
    dtype = torch.float32 if config.dtype == "fp32" else torch.bfloat16
    for out_features, in_features in shapes:
        linear = _dense(config, torch.randn(out_features, in_features, generator=chance).to(dtype))
        # A head is wide, and gets one row for each sequence: the check should not take seconds.
        most = config.max_num_seqs if out_features > _WIDE else config.max_step_tokens
        x = torch.randn(most, in_features, generator=chance).to(dtype)
        with torch.inference_mode():
            together = linear(x)
            off = {n: (linear(x[-n:]) - together[-n:]).abs().max().item() for n in _CHECKED}
        rows = next((n for n in _CHECKED if off[n]), None)
        if rows is not None:
            raise NumericsError(
                f"numerics='deterministic' cannot be had here: a product with a matrix of "
                f"{out_features}x{in_features} in {config.dtype} gives {rows} rows other numbers "
                f"than among {most} (by up to {off[rows]:.2g}); use the other dtype, or fewer "
                f"threads than {torch.get_num_threads()}"
            )
