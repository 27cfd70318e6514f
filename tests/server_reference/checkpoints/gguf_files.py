"""Small GGUF files of the Llama family, whole or broken on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType, TokenType
from numpy.typing import NDArray

__all__ = ["LAYERS", "TEMPLATE", "TOKENS", "tensors", "write_gguf"]

LAYERS = 2
_HIDDEN, _INNER, _HEAD, _KV_ROWS = 64, 96, 16, 32
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] | trim }}<|im_end|>{% endfor %}"
_MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġ Ġ"]
_BYTES = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_LETTERS = [chr(byte) for byte in _BYTES] + [chr(0x100 + at) for at in range(256 - len(_BYTES))]
TOKENS = ["<|im_start|>", "<|im_end|>", "<tool>", *_LETTERS, *(m.replace(" ", "") for m in _MERGES)]


def tensors() -> dict[str, NDArray[np.float32]]:
    """Random tensors under a file's names, with their shapes in PyTorch's order."""
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd": (len(TOKENS), _HIDDEN),
        "output_norm": (_HIDDEN,),
    }
    for at in range(LAYERS):
        shapes |= {
            f"blk.{at}.attn_norm": (_HIDDEN,),
            f"blk.{at}.attn_q": (_HIDDEN, _HIDDEN),
            f"blk.{at}.attn_k": (_KV_ROWS, _HIDDEN),
            f"blk.{at}.attn_v": (_KV_ROWS, _HIDDEN),
            f"blk.{at}.attn_output": (_HIDDEN, _HIDDEN),
            f"blk.{at}.ffn_norm": (_HIDDEN,),
            f"blk.{at}.ffn_gate": (_INNER, _HIDDEN),
            f"blk.{at}.ffn_up": (_INNER, _HIDDEN),
            f"blk.{at}.ffn_down": (_HIDDEN, _INNER),
        }
    return {
        f"{name}.weight": random.standard_normal(shape, dtype=np.float32)
        for name, shape in shapes.items()
    }


def write_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    without: Iterable[str] = (),
    extra: Mapping[str, NDArray[np.float32]] | None = None,
    **metadata: str | int | float | bool | list[Any],
) -> Path:
    """Write a file.

    Args:
        kind: Type of the matrices.
        without: Metadata keys and tensors left out.
        extra: Tensors added.
        metadata: Values replaced or added, with `__` for a dot: `llama__block_count=3`.
    """
    left_out = set(without)
    writer = gguf.GGUFWriter(path, architecture)
    values = _metadata() | {key.replace("__", "."): value for key, value in metadata.items()}
    for key, value in values.items():
        if key not in left_out:
            _add(writer, key, value)
    for name, values_of in (tensors() | dict(extra or {})).items():
        if name not in left_out:
            its = kind if values_of.ndim == 2 else GGMLQuantizationType.F32
            writer.add_tensor(name, gguf.quants.quantize(values_of, its), raw_dtype=its)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _metadata() -> dict[str, object]:
    control = [int(TokenType.CONTROL)] * 2
    types = [*control, int(TokenType.USER_DEFINED), *[int(TokenType.NORMAL)] * (len(TOKENS) - 3)]
    return {
        "llama.block_count": LAYERS,
        "llama.context_length": 128,
        "llama.embedding_length": _HIDDEN,
        "llama.feed_forward_length": _INNER,
        "llama.attention.head_count": _HIDDEN // _HEAD,
        "llama.attention.head_count_kv": _KV_ROWS // _HEAD,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": _HEAD,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": _MERGES,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.chat_template": TEMPLATE,
    }


def _add(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case list():
            writer.add_array(key, value)
        case _:
            raise TypeError(f"{key} is {value!r}")
