"""One transformer for the Llama family: the arithmetic of every layer but attention.

Tokens of all sequences lie flat in one batch. Attention, and with it the KV cache, is the
caller's: `hidden` calls `attend` once per layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from .linear import DenseLinear, Linear

__all__ = ["Attend", "ModelConfig", "Transformer", "weight_shapes"]


class Attend(Protocol):
    """Attention over a KV cache that the callee keeps."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store new keys and values, then attend to all of each sequence's.

        Args:
            layer: Counted from 0.
            q: `[num_tokens, num_q_heads, head_dim]`, rotated; it may be a strided view.
            k: `[num_tokens, num_kv_heads, head_dim]`, likewise.
            v: `[num_tokens, num_kv_heads, head_dim]`, likewise, and not rotated.

        Returns:
            A tensor of `q`'s shape and dtype.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The measures of a model.

    Args:
        max_context: Positions that it was made for.
        rope_theta: Base of the rotary frequencies.
        tie_embeddings: The head is the embedding matrix.
        windows: Of each layer, how many tokens a query sees, itself included, or `None` for
            all before it; empty: every layer sees all.
        attention_scale: Factor on the scores; `None` takes `head_dim**-0.5`.
        attention_soft_cap: Scores are bent to stay within plus and minus this.

    Raises:
        ValueError: A measure is not positive, or the heads do not divide.
    """

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_context: int
    rope_theta: float
    rms_norm_eps: float
    tie_embeddings: bool
    windows: tuple[int | None, ...] = ()
    attention_scale: float | None = None
    attention_soft_cap: float | None = None

    def __post_init__(self) -> None:
        measures = {field.name: getattr(self, field.name) for field in fields(self)}
        measures |= {f"windows[{at}]": window for at, window in enumerate(self.windows)}
        for name, value in measures.items():
            if name not in ("tie_embeddings", "windows") and value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, not {value}")
        if self.windows and len(self.windows) != self.num_layers:
            raise ValueError(
                f"windows has {len(self.windows)} entries for {self.num_layers} layers; give one "
                f"for each layer, or none"
            )
        if self.num_q_heads % self.num_kv_heads:
            raise ValueError(
                f"num_q_heads ({self.num_q_heads}) must be a multiple of num_kv_heads "
                f"({self.num_kv_heads}): each KV head serves a whole group of query heads"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim ({self.head_dim}) must be even: rope turns pairs")

    def window(self, layer: int) -> int | None:
        """Tokens that a query of this layer sees, itself included; `None`: all."""
        return self.windows[layer] if self.windows else None


def weight_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all weights, in a fixed order.

    `qkv` holds the rows of queries, keys and values one below the other; `gate_up` those of
    both projections. A matrix is `[out, in]`.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    q_rows = config.num_q_heads * config.head_dim
    kv_rows = config.num_kv_heads * config.head_dim
    layer: dict[str, tuple[int, ...]] = {
        "attention_norm": (hidden,),
        "qkv": (q_rows + 2 * kv_rows, hidden),
        "attention_out": (hidden, q_rows),
        "mlp_norm": (hidden,),
        "gate_up": (2 * inner, hidden),
        "down": (hidden, inner),
    }
    shapes: dict[str, tuple[int, ...]] = {"embedding": (config.vocab_size, hidden)}
    for at in range(config.num_layers):
        shapes |= {f"layers.{at}.{name}": shape for name, shape in layer.items()}
    shapes["norm"] = (hidden,)
    return shapes if config.tie_embeddings else shapes | {"head": (config.vocab_size, hidden)}


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_norm: Tensor
    qkv: Linear
    attention_out: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


class Transformer:
    """A decoder of the Llama family.

    Args:
        weights: As `weight_shapes` lists them, all of one dtype and on one device.
        linears: Products that take the place of the matrices of their names in `weights`,
            which may then be left out; `head` names the head even where it is tied.
        pad_rows: Of the other products, as `DenseLinear` takes it.

    Raises:
        ValueError: A weight is missing, or not of its shape.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, Tensor],
        *,
        linears: Mapping[str, Linear] | None = None,
        pad_rows: int = 1,
    ) -> None:
        self._linears = linears or {}
        _check(config, weights, self._linears)
        self.config = config
        self.weights = dict(weights)
        self.dtype = weights["embedding"].dtype
        self._embedding = weights["embedding"]
        self._pad_rows = pad_rows
        self._layers = [self._layer(f"layers.{at}.") for at in range(config.num_layers)]
        self._norm = weights["norm"].float()
        self._head = self._linear("head")
        self._cos, self._sin = _rotations(config, self._embedding.device)

    def hidden(self, token_ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Run all layers over new tokens.

        Args:
            token_ids: `[num_tokens]`, int64.
            positions: Each token's place in its sequence, `[num_tokens]`, int64, below
                `max_context`.
            attend: Called once per layer, in order, in inference mode.

        Returns:
            `[num_tokens, hidden_size]` in the model's dtype, normalised for `logits`.
        """
        with torch.inference_mode():
            cos = self._cos[positions].unsqueeze(1)  # [num_tokens, 1, head_dim / 2]
            sin = self._sin[positions].unsqueeze(1)
            # The stream between the layers is fp32 whatever the weights are: in bf16 its sums
            # would be rounded 60 times in SmolLM2, which doubles the error of its logits.
            x = functional.embedding(token_ids, self._embedding).float()
            for at, layer in enumerate(self._layers):
                q, k, v = self._project(layer, x, cos, sin)
                attended = attend(at, q, k, v).reshape(len(x), -1)
                x = x + layer.attention_out(attended)
                x = x + self._mlp(layer, x)
            return self._normalise(x, self._norm)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of every token of the vocabulary to come next.

        Args:
            hidden: Rows of what `hidden` returned, `[rows, hidden_size]`.

        Returns:
            `[rows, vocab_size]`, fp32.
        """
        with torch.inference_mode():
            return self._head(hidden).float()

    def _linear(self, name: str) -> Linear:
        if name in self._linears:
            return self._linears[name]
        tied = name == "head" and self.config.tie_embeddings
        return DenseLinear(self.weights["embedding" if tied else name], pad_rows=self._pad_rows)

    def _layer(self, prefix: str) -> _Layer:
        return _Layer(
            attention_norm=self.weights[prefix + "attention_norm"].float(),
            qkv=self._linear(prefix + "qkv"),
            attention_out=self._linear(prefix + "attention_out"),
            mlp_norm=self.weights[prefix + "mlp_norm"].float(),
            gate_up=self._linear(prefix + "gate_up"),
            down=self._linear(prefix + "down"),
        )

    def _project(
        self, layer: _Layer, x: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        config = self.config
        rows = layer.qkv(self._normalise(x, layer.attention_norm))
        heads = rows.view(len(x), -1, config.head_dim)
        num_rotated = config.num_q_heads + config.num_kv_heads
        rotated = _rotate(heads[:, :num_rotated], cos, sin)
        q, k = rotated[:, : config.num_q_heads], rotated[:, config.num_q_heads :]
        return q, k, heads[:, num_rotated:]

    def _mlp(self, layer: _Layer, x: Tensor) -> Tensor:
        both = layer.gate_up(self._normalise(x, layer.mlp_norm))
        gate, up = both.chunk(2, dim=-1)
        return layer.down(functional.silu(gate) * up)

    def _normalise(self, x: Tensor, weight: Tensor) -> Tensor:
        normal = functional.rms_norm(x, weight.shape, weight, self.config.rms_norm_eps)
        return normal.to(self.dtype)


def _check(
    config: ModelConfig, weights: Mapping[str, Tensor], linears: Mapping[str, Linear]
) -> None:
    for name, shape in weight_shapes(config).items():
        if name in linears:
            found = [linears[name].out_features, linears[name].in_features]
        elif name in weights:
            found = list(weights[name].shape)
        else:
            raise ValueError(f"the weight {name!r} is missing")
        if found != list(shape):
            raise ValueError(
                f"the weight {name!r} has the shape {found}, "
                f"but the model's measures ask for {list(shape)}"
            )


def _rotations(config: ModelConfig, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every position's angles, `[max_context, head_dim / 2]`, fp32.

    Source:
        Su et al., "RoFormer", 2021, section 3.2.2.
    """
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponents
    positions = torch.arange(config.max_context, dtype=torch.float32)
    angles = torch.outer(positions, frequencies)
    return angles.cos().to(device), angles.sin().to(device)


def _rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (i, i + head_dim / 2) of each head, in fp32."""
    first, second = heads.float().chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(heads.dtype)
