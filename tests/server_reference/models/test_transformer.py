from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from server_reference.kernels.heads import by_heads
from server_reference.models.transformer import ModelConfig, Transformer, weight_shapes
from tests.server_reference.models.dense import DenseAttend, all_logits

SMALL = ModelConfig(
    num_layers=2,
    hidden_size=32,
    intermediate_size=48,
    num_q_heads=4,
    num_kv_heads=2,
    head_dim=8,
    vocab_size=50,
    max_context=64,
    rope_theta=10_000.0,
    rms_norm_eps=1e-5,
    tie_embeddings=False,
)
IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2]


def some_weights(config: ModelConfig, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    chance = torch.Generator().manual_seed(0)
    return {
        name: (torch.randn(shape, generator=chance) * 0.2).to(dtype)
        for name, shape in weight_shapes(config).items()
    }


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(SMALL, id="grouped"),
        pytest.param(replace(SMALL, tie_embeddings=True), id="tied"),
        pytest.param(replace(SMALL, num_kv_heads=4), id="a-kv-head-each"),
        pytest.param(replace(SMALL, num_kv_heads=1), id="one-kv-head"),
        pytest.param(replace(SMALL, head_dim=16), id="heads-wider-than-hidden"),
        pytest.param(replace(SMALL, rope_theta=500.0, rms_norm_eps=0.1), id="theta-and-eps"),
    ],
)
def test_agrees_with_transformers_llama(config: ModelConfig) -> None:
    weights = some_weights(config)

    ours = all_logits(Transformer(config, weights), IDS)

    torch.testing.assert_close(ours, _theirs(config, weights), atol=1e-4, rtol=0)


class Zeros:
    """A product that gives nothing."""

    def __init__(self, out_features: int, in_features: int) -> None:
        self.out_features, self.in_features = out_features, in_features

    def __call__(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x), self.out_features)


@pytest.mark.parametrize("tied", [True, False])
def test_given_products_take_the_place_of_matrices(tied: bool) -> None:
    config = replace(SMALL, tie_embeddings=tied)
    weights = {name: w for name, w in some_weights(config).items() if name != "head"}

    transformer = Transformer(config, weights, linears={"head": Zeros(50, 32)})

    assert not all_logits(transformer, IDS).any()


def test_a_given_product_must_be_of_its_matrix_shape() -> None:
    with pytest.raises(ValueError, match=r"'head' has the shape \[49, 32\], but .* \[50, 32\]"):
        Transformer(SMALL, some_weights(SMALL), linears={"head": Zeros(49, 32)})


def _theirs(config: ModelConfig, weights: dict[str, Tensor]) -> Tensor:
    """Logits of transformers' own Llama with the same weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    settings: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_q_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_context,
        "rms_norm_eps": config.rms_norm_eps,
        "tie_word_embeddings": config.tie_embeddings,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
    }
    model: Any = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(state_dict(config, weights), strict=False)
    with torch.inference_mode():
        logits: Tensor = model.eval()(torch.tensor([IDS])).logits[0]
    return logits


def state_dict(config: ModelConfig, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights under transformers' names."""
    rows = [config.num_q_heads * config.head_dim] + [config.num_kv_heads * config.head_dim] * 2
    tied = weights["embedding"]
    theirs = {
        "model.embed_tokens.weight": tied,
        "model.norm.weight": weights["norm"],
        "lm_head.weight": weights.get("head", tied),
    }
    for at in range(config.num_layers):
        our, their = f"layers.{at}", f"model.layers.{at}"
        q, k, v = torch.split(weights[f"{our}.qkv"], rows)
        gate, up = weights[f"{our}.gate_up"].chunk(2)
        theirs |= {
            f"{their}.input_layernorm.weight": weights[f"{our}.attention_norm"],
            f"{their}.self_attn.q_proj.weight": q,
            f"{their}.self_attn.k_proj.weight": k,
            f"{their}.self_attn.v_proj.weight": v,
            f"{their}.self_attn.o_proj.weight": weights[f"{our}.attention_out"],
            f"{their}.post_attention_layernorm.weight": weights[f"{our}.mlp_norm"],
            f"{their}.mlp.gate_proj.weight": gate,
            f"{their}.mlp.up_proj.weight": up,
            f"{their}.mlp.down_proj.weight": weights[f"{our}.down"],
        }
    return theirs


def test_token_by_token_equals_the_whole() -> None:
    transformer, attend = Transformer(SMALL, some_weights(SMALL)), DenseAttend()

    steps = [
        transformer.hidden(torch.tensor([token]), torch.tensor([at]), attend)
        for at, token in enumerate(IDS)
    ]

    whole = all_logits(transformer, IDS)
    torch.testing.assert_close(transformer.logits(torch.cat(steps)), whole, atol=1e-4, rtol=0)


def test_bf16_stays_close_to_fp32_and_its_logits_are_fp32() -> None:
    exact = all_logits(Transformer(SMALL, some_weights(SMALL)), IDS)

    rounded = all_logits(Transformer(SMALL, some_weights(SMALL, torch.bfloat16)), IDS)

    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, atol=0.15, rtol=0)


@pytest.mark.parametrize("num_rows", [1, 2, 3, 5, 7, 15, 17])
def test_padded_rows_do_not_depend_on_how_many_there_are(num_rows: int) -> None:
    """An fp32 product of few rows rounds differently from one of many."""
    wide = replace(SMALL, hidden_size=576, intermediate_size=1536, num_layers=1)
    transformer = Transformer(wide, some_weights(wide), pad_rows=16)
    hidden = torch.randn(64, 576, generator=torch.Generator().manual_seed(1))

    alone = transformer.logits(hidden[:num_rows])

    assert torch.equal(alone, transformer.logits(hidden)[:num_rows])


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_an_activation_does_not_depend_on_where_threads_meet(activation: Any) -> None:
    """Two of them met within a row, whose numbers there were computed by other instructions."""
    wide = replace(SMALL, num_layers=1, intermediate_size=4864, activation=activation)
    transformer = Transformer(wide, some_weights(wide), pad_rows=16)
    ids = torch.arange(50).repeat(4)

    def hidden(count: int) -> Tensor:
        return transformer.hidden(
            ids[:count], torch.zeros(count).long(), by_heads(lambda _, q, k, v: q)
        )

    together = hidden(200)

    assert [n for n in (5, 31, 150) if not torch.equal(hidden(n), together[:n])] == []


def test_attention_sees_unpadded_rows() -> None:
    seen: list[torch.Size] = []

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen.extend([q.shape, k.shape, v.shape])
        return q

    transformer = Transformer(SMALL, some_weights(SMALL), pad_rows=16)
    hidden = transformer.hidden(torch.tensor(IDS), torch.arange(len(IDS)), by_heads(attend))

    assert seen == [(17, 4, 8), (17, 2, 8), (17, 2, 8)] * 2
    assert hidden.shape == (17, 32)


def test_nothing_is_recorded_for_gradients() -> None:
    weights = {name: weight.requires_grad_() for name, weight in some_weights(SMALL).items()}

    logits = all_logits(Transformer(SMALL, weights), IDS)

    assert not logits.requires_grad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"num_q_heads": 3}, r"num_q_heads \(3\) must be a multiple", id="groups"),
        pytest.param({"head_dim": 7}, r"head_dim \(7\) must be even", id="odd-head"),
        pytest.param({"num_layers": 0}, "num_layers must be positive, not 0", id="no-layers"),
        pytest.param({"windows": (8, 0)}, r"windows\[1\] must be positive, not 0", id="no-window"),
        pytest.param({"windows": (8,)}, "1 entries for 2 layers", id="a-window-too-few"),
        pytest.param({"attention_soft_cap": 0.0}, "attention_soft_cap must be pos", id="no-cap"),
    ],
)
def test_measures_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)


def test_weights_that_do_not_fit_are_refused() -> None:
    weights = some_weights(SMALL)

    with pytest.raises(ValueError, match=r"'layers\.1\.down' is missing"):
        Transformer(SMALL, {k: v for k, v in weights.items() if k != "layers.1.down"})
    with pytest.raises(ValueError, match=r"'norm' has the shape \[31\].* ask for \[32\]"):
        Transformer(SMALL, weights | {"norm": torch.ones(31)})
    with pytest.raises(ValueError, match="pad_rows must be at least 1, not 0"):
        Transformer(SMALL, weights, pad_rows=0)


def test_a_window_is_a_layers_own_and_none_where_none_is_given() -> None:
    assert [replace(SMALL, windows=(8, None)).window(layer) for layer in (0, 1)] == [8, None]
    assert SMALL.window(1) is None
