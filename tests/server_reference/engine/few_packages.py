"""Run an engine where only the packages that it needs can be imported; print what it generates.

`python -m tests.server_reference.engine.few_packages [PACKAGE …]` refuses those as well. It
needs nothing else itself, so that it also runs where nothing else is installed.
"""

from __future__ import annotations

import json
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_NEEDED = {"torch", "triton", "numpy", "safetensors", "tokenizers"}
_OF_TORCH = {"torchgen", "typing_extensions"}  # comes in its wheel; is imported by it in any case
_BUILT = "_sysconfigdata_"  # how this Python was built: of the standard library, by another name
_SIZE, _HEADS, _LAYERS = 32, 2, 2


def refuse_others(own: set[str]) -> None:
    """From now on nothing can be imported but `own`, what is needed, and the standard library."""
    sys.meta_path.insert(0, _Only(_NEEDED | _OF_TORCH | own))


class _Only(MetaPathFinder):
    """Finds nothing, but refuses what does not belong to `packages`."""

    def __init__(self, packages: set[str]) -> None:
        self._packages = packages | sys.stdlib_module_names

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        package = fullname.partition(".")[0]
        if package not in self._packages and not package.startswith(_BUILT):
            raise ModuleNotFoundError(f"No module named {package!r}: it is refused", name=package)


def _run() -> list[int]:
    from server_reference.checkpoints.load import load
    from server_reference.config import EngineConfig
    from server_reference.core import GenerateRequest, SamplingParams
    from server_reference.engine.engine import Engine

    with TemporaryDirectory() as folder:
        _write_model(Path(folder))
        config = EngineConfig(model=folder, num_blocks=16)
        model = load(config)
    engine = Engine(model, config)
    params = SamplingParams(max_tokens=16, seed=0, logprobs=1, ignore_eos=True)
    prompt = model.tokenizer.encode("a model")
    engine.add(GenerateRequest(id="a", tenant="", prompt_token_ids=prompt, params=params))
    updates = [update for _ in range(20) for update in engine.step()]
    assert updates[-1].finish_reason == "length", updates[-1]
    return [token for update in updates for token in update.token_ids]


def _write_model(folder: Path) -> None:
    """A Llama of random weights, with a vocabulary of bytes and what they were merged to."""
    import torch
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["a model of models"], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "architectures": ["LlamaForCausalLM"], "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": _SIZE, "intermediate_size": _SIZE, "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    tensors = {"model.norm.weight": torch.ones(_SIZE)}
    for name in ("model.embed_tokens", "lm_head"):
        tensors[f"{name}.weight"] = torch.randn(tokenizer.get_vocab_size(), _SIZE)
    for layer in (f"model.layers.{number}" for number in range(_LAYERS)):
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}.{name}.weight"] = torch.ones(_SIZE)
        for name in ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o"):
            tensors[f"{layer}.{name}_proj.weight"] = torch.randn(_SIZE, _SIZE) / _SIZE**0.5
        for name in ("mlp.gate", "mlp.up", "mlp.down"):
            tensors[f"{layer}.{name}_proj.weight"] = torch.randn(_SIZE, _SIZE) / _SIZE**0.5
    save_file(tensors, folder / "model.safetensors")


if __name__ == "__main__":
    sys.meta_path.insert(0, _Only((_NEEDED | _OF_TORCH | {"server_reference"}) - {*sys.argv[1:]}))
    print(json.dumps(_run()))
