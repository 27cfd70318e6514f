"""From the rows that hold queries, keys and values to what attention reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, split

from .eager import normalise
from .rope import rotate_

__all__ = ["Heads", "by_heads"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """How a layer's rows are made up, and what becomes of them before attention.

    Args:
        bias: Added to every row, of its length and dtype; `None`: nothing.
        q_norm: `[head_dim]`, fp32, as `eager.normalise` takes it: each head of queries is
            normalised before it turns; `None`: not so.
        k_norm: Likewise, of keys; there are both or none.
        eps: Of these norms.
    """

    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    bias: Tensor | None = None
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None
    eps: float = 0.0

    def split(self, qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, as views of `qkv` where there is no bias; it is changed.

        Args:
            qkv: `[num_tokens, (num_q_heads + 2 * num_kv_heads) * head_dim]`, contiguous.
            cos: Of each token's position, `[num_tokens, 1, head_dim]`, fp32, as
                `rope.rotations` makes them.
            sin: Likewise.

        Returns:
            `[num_tokens, heads, head_dim]` each; queries and keys are rotated.
        """
        rows = qkv if self.bias is None else qkv + self.bias
        heads, num_turned = rows.view(len(rows), -1, self.head_dim), self.num_q_heads
        num_turned += self.num_kv_heads
        q, k, v = split(heads, [self.num_q_heads, self.num_kv_heads, self.num_kv_heads], dim=1)
        if self.q_norm is not None and self.k_norm is not None:
            q.copy_(normalise(q.float(), self.q_norm, eps=self.eps, dtype=q.dtype))
            k.copy_(normalise(k.float(), self.k_norm, eps=self.eps, dtype=k.dtype))
        rotate_(heads[:, :num_turned], cos, sin)
        return q, k, v


def by_heads(
    attend: Callable[[int, Tensor, Tensor, Tensor], Tensor],
) -> Callable[[int, Tensor, Heads, Tensor, Tensor], Tensor]:
    """What a transformer calls, from attention that is given a layer's queries, keys and values."""
    return lambda layer, qkv, heads, cos, sin: attend(layer, *heads.split(qkv, cos, sin))
