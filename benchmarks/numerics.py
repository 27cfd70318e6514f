"""How far each kind of weights and of KV cache moves a model's logits from those of fp32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .figures import Figure, Outcome, Progress

__all__ = ["QUICK", "Sizes", "run"]

_TEXTS = (
    "The history of the Roman Empire begins, by the usual count, in 27 BC, when the Senate gave "
    "Octavian the name Augustus. For two centuries the borders held, roads were laid from "
    "Scotland to Syria, and grain from Egypt fed a city of a million people.",
    "def quicksort(items):\n    if len(items) < 2:\n        return items\n"
    "    pivot = items[len(items) // 2]\n    left = [x for x in items if x < pivot]\n"
    "    same = [x for x in items if x == pivot]\n    right = [x for x in items if x > pivot]\n"
    "    return quicksort(left) + same + quicksort(right)\n",
    "<|im_start|>user\nWhat is the capital of France, and why is it famous?<|im_end|>\n"
    "<|im_start|>assistant\nThe capital of France is Paris. It is famous for its art, its food, "
    "and the Eiffel Tower, which was built in 1889 for a world's fair.<|im_end|>\n",
)
_HELD = "weights as held"
_BAR = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The model, and how many tokens of each text are read: of prose, of code and of a chat."""

    model: str = "smollm2"
    tokens: int = 64


QUICK = Sizes(tokens=8)


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """Read the texts in each way, and compare all distributions with those of fp32."""
    import torch

    exact, tokenizer = _loaded(sizes.model, dtype="fp32")
    texts = [_encoded(tokenizer, text)[: sizes.tokens] for text in _TEXTS]
    expected = [_log_probabilities(exact, ids, "fp32", rows=len(ids)) for ids in texts]

    def mean(transformer: Any, kv: str, rows: int) -> float:
        """Kullback-Leibler divergence per token."""
        moved = []
        for ids, wanted in zip(texts, expected, strict=True):
            found = _log_probabilities(transformer, ids, kv, rows=rows)
            moved.append((wanted.exp() * (wanted - found)).sum(-1))
        return float(torch.cat(moved).mean())

    figures = []
    for name, transformer in _kinds(sizes.model, exact):
        # Keys and values of bf16 weights are bf16 before they are kept.
        for kv in ("bf16", "fp32") if transformer is exact else ("bf16",):
            for reading, rows in (("token by token", 1), ("whole", sizes.tokens)):
                progress(f"{name}, KV {kv}, {reading}")
                bar = _BAR if name == _HELD else None
                title = f"{name}, KV {kv}, {reading}: mean KL to fp32"
                value = mean(transformer, kv, rows)
                figures.append(Figure(name=title, value=value, unit="nats", bar=bar))
    facts = {"tokens": sum(len(ids) for ids in texts)}
    return Outcome(name="numerics", sizes=asdict(sizes), figures=figures, facts=facts)


def _kinds(model: str, exact: Any) -> Iterator[tuple[str, Any]]:
    """Each kind of weights: the file's own, dequantised, and quantised again from fp32."""
    from server_reference.config import EngineConfig
    from server_reference.models.numerics import asked_forms, linears_of, quantized
    from server_reference.models.transformer import Transformer

    yield "weights fp32", exact
    yield _HELD, _loaded(model)[0]
    yield "weights bf16", _loaded(model, numerics="deterministic")[0]
    for form in ("int8", "int4"):
        config = EngineConfig(quantize=form, one_copy=True)
        forms = asked_forms(exact.config, form, {})
        weights = quantized(config, exact.config, dict(exact.weights), forms)
        weights = {name: _in_bf16(name, weight) for name, weight in weights.items()}
        linears, _ = linears_of(config, exact.config, weights, forms)
        yield f"weights --quantize {form}", Transformer(exact.config, weights, linears=linears)


def _in_bf16(name: str, weight: Any) -> Any:
    return weight if name.endswith((".weights", ".scales")) else weight.bfloat16()


def _loaded(model: str, **settings: Any) -> tuple[Any, Any]:
    from server_reference.checkpoints.load import load
    from server_reference.config import EngineConfig

    loaded = load(EngineConfig(model=model, **settings))
    return loaded.transformer, loaded.tokenizer


def _encoded(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a text, in which `<|im_end|>` and its like are control tokens."""
    ids: list[int] = []
    for piece in tokenizer.control_tokens.split(text):
        ids += [piece] if isinstance(piece, int) else tokenizer.encode(piece, follows=bool(ids))
    return ids


def _log_probabilities(transformer: Any, ids: list[int], kv: str, *, rows: int) -> Any:
    """Of every next token at every place, `[tokens, vocab_size]`; `rows` tokens in each step."""
    import torch

    from server_reference.kernels.heads import by_heads

    attend = _attend("float32" if kv == "fp32" else "bfloat16")
    found = []
    for start in range(0, len(ids), rows):
        some = torch.tensor(ids[start : start + rows])
        positions = torch.arange(start, start + len(some))
        hidden = transformer.hidden(some, positions, by_heads(attend))
        found.append(transformer.logits(hidden).log_softmax(-1))
    return torch.cat(found)


def _attend(kv_dtype: str) -> Callable[..., Any]:
    """Causal attention in fp32 over keys and values of one sequence, kept in a dtype."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    kept: dict[int, tuple[Any, Any]] = {}

    def attend(layer: int, q: Any, k: Any, v: Any) -> Any:
        new = [one.to(getattr(torch, kv_dtype)) for one in (k, v)]
        if layer in kept:
            new = [torch.cat(pair) for pair in zip(kept[layer], new, strict=True)]
        kept[layer] = new[0], new[1]
        ahead = torch.ones(len(q), len(new[0]), dtype=torch.bool).tril(len(new[0]) - len(q))
        rows = [one.float().transpose(0, 1).unsqueeze(0) for one in (q, *new)]
        attended = scaled_dot_product_attention(
            rows[0], rows[1], rows[2], attn_mask=ahead, enable_gqa=True
        )
        return attended[0].transpose(0, 1).to(q.dtype)

    return attend
