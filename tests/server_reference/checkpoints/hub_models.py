"""Small random models of every family, made by transformers and kept as model hubs keep them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch

__all__ = ["CONTEXT", "IDS", "MODELS", "WINDOW", "peer", "save", "their_logits"]

CONTEXT = 64
"""Positions of every model, of which a scaled one was first trained on 16."""

WINDOW = 7
IDS = [(7 * at * at + 3 * at + 1) % 90 for at in range(CONTEXT)]

_SIZES: dict[str, Any] = {
    "vocab_size": 90,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
}
_LINEAR = {"rope_type": "linear", "factor": 4.0}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 0.5,
    "high_freq_factor": 3.0,
    "original_max_position_embeddings": 16,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}

_GEMMA3 = {
    "tie_word_embeddings": True,
    "sliding_window": WINDOW,
    "query_pre_attn_scalar": 16,
    "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    "rope_parameters": {
        "full_attention": {"rope_theta": 50_000.0, **_LINEAR},
        "sliding_attention": {"rope_theta": 2_000.0, "rope_type": "default"},
    },
}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True}),
    "llama-linear": ("Llama", {"rope": _LINEAR}),
    "llama-llama3": ("Llama", {"rope": _LLAMA3}),
    "llama-yarn": ("Llama", {"rope": _YARN}),
    "llama-yarn-scales": (
        "Llama",
        {
            "rope": _YARN
            | {"mscale": 0.7, "mscale_all_dim": 0.3, "truncate": False}
            | {"beta_fast": 1.0, "beta_slow": 0.1}
        },
    ),
    "llama-yarn-factor": ("Llama", {"rope": _YARN | {"attention_factor": 1.3, "beta_fast": 8.0}}),
    "mistral": ("Mistral", {"sliding_window": WINDOW}),
    "qwen2": ("Qwen2", {}),
    "qwen2-windows": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2},
    ),
    "qwen3": ("Qwen3", {"tie_word_embeddings": True}),
    "gemma2": (
        "Gemma2",
        {
            "tie_word_embeddings": True,
            "sliding_window": WINDOW,
            "query_pre_attn_scalar": 16,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma2-scale": (
        "Gemma2",
        {"tie_word_embeddings": True, "sliding_window": CONTEXT, "query_pre_attn_scalar": 3},
    ),
    "gemma3": ("Gemma3", _GEMMA3),
    "gemma3-wide": ("Gemma3", _GEMMA3 | {"sliding_window": CONTEXT}),
}


def peer(name: str) -> Any:
    """The model as transformers has it: random weights of some size, biases and norms too."""
    import transformers

    family, changes = MODELS[name]
    settings = _SIZES | {key: value for key, value in changes.items() if key != "rope"}
    if family != "Gemma3":
        rope = {"rope_type": "default"} | changes.get("rope", {})
        settings["rope_parameters"] = {"rope_theta": 5_000.0} | rope
    kind = "Gemma3Text" if family == "Gemma3" else family
    config = getattr(transformers, f"{kind}Config")(**settings)
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    chance = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        for key, weight in model.state_dict().items():
            spread = 0.4 if key.endswith(("norm.weight", "bias")) else 0.25
            weight.add_(torch.randn(weight.shape, generator=chance) * spread)
    return model


def their_logits(model: Any) -> torch.Tensor:
    """At every position of `IDS`."""
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([IDS])).logits[0]
    return logits


def save(model: Any, folder: Path, **how: Any) -> Path:
    """Write it as a hub has it."""
    model.save_pretrained(folder, **how)
    return folder
