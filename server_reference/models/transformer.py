"""One transformer for Llama and its kin: the arithmetic of every layer but attention.

Tokens of all sequences lie flat in one batch. Attention, and with it the KV cache, is the
caller's: `hidden` calls `attend` once per layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from ..kernels import eager
from ..kernels.heads import Heads
from ..kernels.linear import DenseLinear, Linear
from ..kernels.operations import Activation, Operations
from ..kernels.rope import RopeScaling, rotations

__all__ = ["Attend", "ModelConfig", "Transformer", "weight_shapes"]


class Attend(Protocol):
    """Attention over a KV cache that the callee keeps."""

    def __call__(self, layer: int, qkv: Tensor, heads: Heads, cos: Tensor, sin: Tensor) -> Tensor:
        """Turn queries and keys, store keys and values, and attend to all of each sequence's.

        Args:
            layer: Counted from 0.
            qkv: `[num_tokens, (num_q_heads + 2 * num_kv_heads) * head_dim]`, contiguous; it
                may be changed.
            heads: What becomes of these rows first.
            cos: Of each token's position, `[num_tokens, 1, head_dim]`, fp32.
            sin: Likewise.

        Returns:
            `[num_tokens, num_q_heads, head_dim]`, `qkv`'s dtype.
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
        rope_scaling: For contexts beyond the one first trained on.
        local_rope_theta: Base of the layers that have a window, which are never scaled; `None`:
            they turn as the others do.
        qkv_bias: Queries, keys and values have a bias each.
        qk_norm: Each head of queries and keys is normalised before it turns.
        post_norms: What attention and MLP give is normalised before it is added.
        norm_offset: Added to every weight of a norm: Gemma's files leave the 1 out.
        embedding_scale: Factor on the embeddings.
        activation: Of the MLP's gate.
        logit_soft_cap: Like `attention_soft_cap`, for the logits.

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
    rope_scaling: RopeScaling | None = None
    local_rope_theta: float | None = None
    qkv_bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    norm_offset: float = 0.0
    embedding_scale: float = 1.0
    activation: Activation = "silu"
    logit_soft_cap: float | None = None

    def __post_init__(self) -> None:
        measures = {field.name: getattr(self, field.name) for field in fields(self)}
        measures |= {f"windows[{at}]": window for at, window in enumerate(self.windows)}
        for name, value in measures.items():
            if type(value) in (int, float) and name != "norm_offset" and not 0 < value < math.inf:
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
        divisors = self.rope_scaling.divisors if self.rope_scaling else ()
        if divisors and len(divisors) * 2 != self.head_dim:
            raise ValueError(
                f"there are {len(divisors)} rope factors for heads of {self.head_dim} values: one "
                "is needed for each pair"
            )

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
        "qkv_bias": (q_rows + 2 * kv_rows,),
        "q_norm": (config.head_dim,),
        "k_norm": (config.head_dim,),
        "attention_out": (hidden, q_rows),
        "attention_post_norm": (hidden,),
        "mlp_norm": (hidden,),
        "gate_up": (2 * inner, hidden),
        "down": (hidden, inner),
        "mlp_post_norm": (hidden,),
    }
    absent = set[str]()
    absent |= set() if config.qkv_bias else {"qkv_bias"}
    absent |= set() if config.qk_norm else {"q_norm", "k_norm"}
    absent |= set() if config.post_norms else {"attention_post_norm", "mlp_post_norm"}
    shapes: dict[str, tuple[int, ...]] = {"embedding": (config.vocab_size, hidden)}
    for at in range(config.num_layers):
        shapes |= {f"layers.{at}.{name}": layer[name] for name in layer if name not in absent}
    shapes["norm"] = (hidden,)
    return shapes if config.tie_embeddings else shapes | {"head": (config.vocab_size, hidden)}


@dataclass(frozen=True, slots=True)
class _Layer:
    qkv: Linear
    heads: Heads
    attention_out: Linear
    gate_up: Linear
    down: Linear
    norms: dict[str, Tensor]  # fp32, by the weight's name
    turns: int  # which of the model's rotations


class Transformer:
    """A decoder of Llama or one of its kin.

    Args:
        weights: As `weight_shapes` lists them, all of one dtype and on one device; others
            are left alone.
        linears: Products that take the place of the matrices of their names in `weights`,
            which may then be left out; `head` names the head even where it is tied. The bias
            is not theirs.
        pad_rows: Of the other products, as `DenseLinear` takes it; above 1 the numbers of a row
            do not depend on how many others there are in the activations either.
        operations: How the device of the weights computes the rest.

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
        operations: Operations = eager,
    ) -> None:
        self.operations = operations
        self._linears = linears or {}
        _check(config, weights, self._linears)
        self.config = config
        self.weights = {name: weights[name] for name in weight_shapes(config) if name in weights}
        self.dtype, self.device = weights["embedding"].dtype, weights["embedding"].device
        self._embedding = weights["embedding"]
        self._pad_rows = pad_rows
        self._layers = [self._layer(at) for at in range(config.num_layers)]
        self._norm = self._norm_weight("norm")
        self._head = self._linear("head")
        self._rotations = _rotations(config, self.device)
        activate = partial(operations.activate, activation=config.activation)
        self._activate = partial(_by_few_rows, activate) if pad_rows > 1 else activate

    def hidden(
        self,
        token_ids: Tensor,
        positions: Tensor,
        attend: Attend,
        *,
        newest: Tensor | None = None,
    ) -> Tensor:
        """Run all layers over new tokens.

        Args:
            token_ids: `[num_tokens]`, int64; with `newest`, as `Operations.embed` takes them.
            positions: Each token's place in its sequence, `[num_tokens]`, int64, below
                `max_context`.
            attend: Called once per layer, in order, in inference mode.
            newest: Tokens that the host need not know.

        Returns:
            `[num_tokens, hidden_size]` in the model's dtype, normalised for `logits`.
        """
        with torch.inference_mode():
            turned = [
                (cos[positions].unsqueeze(1), sin[positions].unsqueeze(1))
                for cos, sin in self._rotations  # each [num_tokens, 1, head_dim]
            ]
            # The stream between the layers is fp32 whatever the weights are: in bf16 its sums
            # would be rounded 60 times in SmolLM2, which doubles the error of its logits.
            scale = self.config.embedding_scale
            x = self.operations.embed(token_ids, self._embedding, scale=scale, newest=newest)
            added: Tensor | None = None  # what the layer before gave
            post: Tensor | None = None
            for at, layer in enumerate(self._layers):
                norms = layer.norms
                qkv = layer.qkv(self._add_and_normalise(x, norms["attention_norm"], added, post))
                attended = attend(at, qkv, layer.heads, *turned[layer.turns])
                added = layer.attention_out(attended.flatten(1))
                post = norms.get("attention_post_norm")
                rows = self._add_and_normalise(x, norms["mlp_norm"], added, post)
                added = layer.down(self._activate(layer.gate_up(rows)))
                post = norms.get("mlp_post_norm")
            return self._add_and_normalise(x, self._norm, added, post)

    def logits(self, hidden: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Scores of every token of the vocabulary to come next.

        Args:
            hidden: Rows of what `hidden` returned, `[rows, hidden_size]`.
            out: Where to write what is returned; `None`: anywhere.

        Returns:
            `[rows, vocab_size]`, fp32.
        """
        with torch.inference_mode():
            scores = self._head(hidden)
            scores = scores.float() if out is None else out.copy_(scores)
            cap = self.config.logit_soft_cap
            if cap is None:
                return scores
            capped = torch.tanh(scores / cap) * cap
            return capped if out is None else out.copy_(capped)

    def _layer(self, at: int) -> _Layer:
        prefix = f"layers.{at}."
        own = [name.removeprefix(prefix) for name in self.weights if name.startswith(prefix)]
        norms = {name: self._norm_weight(prefix + name) for name in own if name.endswith("norm")}
        return _Layer(
            qkv=self._linear(prefix + "qkv"),
            heads=Heads(
                num_q_heads=self.config.num_q_heads,
                num_kv_heads=self.config.num_kv_heads,
                head_dim=self.config.head_dim,
                bias=self.weights.get(prefix + "qkv_bias"),
                q_norm=norms.get("q_norm"),
                k_norm=norms.get("k_norm"),
                eps=self.config.rms_norm_eps,
            ),
            attention_out=self._linear(prefix + "attention_out"),
            gate_up=self._linear(prefix + "gate_up"),
            down=self._linear(prefix + "down"),
            norms=norms,
            turns=-1 if self.config.window(at) is not None else 0,
        )

    def _norm_weight(self, name: str) -> Tensor:
        """What `_normalise` takes: times the root of its length, which the norm has once more."""
        weight = self.weights[name].float() + self.config.norm_offset
        return weight * math.sqrt(len(weight))

    def _linear(self, name: str) -> Linear:
        if name in self._linears:
            return self._linears[name]
        tied = name == "head" and self.config.tie_embeddings
        return DenseLinear(self.weights["embedding" if tied else name], pad_rows=self._pad_rows)

    def _add_and_normalise(
        self, x: Tensor, weight: Tensor, added: Tensor | None, post: Tensor | None
    ) -> Tensor:
        eps = self.config.rms_norm_eps
        return self.operations.add_and_normalise(
            x, weight, eps=eps, dtype=self.dtype, added=added, post_weight=post
        )


_IN_ONE_THREAD = 16_384  # numbers: torch may share out more


def _by_few_rows(activate: Callable[[Tensor], Tensor], gate_up: Tensor) -> Tensor:
    """So few that one thread has them: where two meet in a row, it is computed otherwise."""
    rows = max(1, _IN_ONE_THREAD // (gate_up.shape[1] // 2))
    return torch.cat([activate(some) for some in torch.split(gate_up, rows)])


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


def _rotations(config: ModelConfig, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """Cosines and sines: first of layers without a window, last of those with one."""
    make = partial(rotations, head_dim=config.head_dim, max_context=config.max_context)
    made = [make(theta=config.rope_theta, scaling=config.rope_scaling)]
    if config.local_rope_theta is not None:
        made.append(make(theta=config.local_rope_theta, scaling=None))
    return [(cos.to(device), sin.to(device)) for cos, sin in made]
