"""How many tokens a request is, without sending it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import exp, sqrt
from typing import Any, Literal, TypeAlias

from .anthropic_messages import add_messages
from .calibration import Calibrator
from .encodings import Tokenizing, bare_name, tokenizing
from .estimate import ERROR, mixture
from .openai_chat import add_chat
from .openai_responses import add_responses
from .remembered import Remembered
from .tally import Spread, Tally, as_json, plain
from .values import Kind, TokenCount
from .vocabulary import LIMIT, CountMany, Vocabularies

__all__ = ["SHARED", "Endpoint", "Tokenizers", "as_body", "count", "endpoint_of", "highest"]

Endpoint = Literal["anthropic.messages", "openai.chat", "openai.responses", "text"]

_Walk: TypeAlias = Callable[[Tally, Mapping[str, Any]], None]
_WALKS: dict[str, _Walk] = {
    "anthropic.messages": add_messages,
    "openai.chat": add_chat,
    "openai.responses": add_responses,
}
_ENDPOINTS = (*_WALKS, "text")
_SAMPLE = 2_000  # characters by which text is told from code
_PER_CUT = 2  # tokens by which a cut inside a word may change the sum


class Tokenizers:
    """What counts texts for any model, and remembers those that it has counted.

    Args:
        vocabularies: Where the vocabularies of this machine are found.
        remembered: Texts whose tokens are kept, for each way of counting.
    """

    def __init__(self, vocabularies: Vocabularies | None = None, remembered: int = 32_768) -> None:
        self.vocabularies = vocabularies or Vocabularies()
        self._size = remembered
        self._remembered: dict[tuple[Tokenizing, bool], Remembered] = {}

    def counts(
        self, texts: Sequence[str], rule: Tokenizing, *, wait: bool
    ) -> tuple[float, float, bool]:
        """Tokens of `texts`, how far they may be off, and whether they are counted exactly."""
        count_many = self.vocabularies.get(rule.encoding, wait=wait)
        key = (rule, count_many is not None)
        remembered = self._remembered.get(key)
        if remembered is None:
            remembered = self._remembered.setdefault(key, Remembered(self._size))
        known, missing = remembered.get(texts)
        if missing:
            found = _counted(missing, rule, count_many)
            remembered.put(missing, found)
            known += sum(found)
        is_exact = rule.is_own and count_many is not None
        cuts = sum(_PER_CUT * (len(text) // LIMIT) for text in texts if len(text) > LIMIT)
        error = 0.0 if is_exact else _error(rule, has_vocabulary=count_many is not None)
        return known, error * known + cuts, is_exact


SHARED = Tokenizers()


def count(
    payload: Mapping[str, Any] | str | bytes,
    *,
    model: str,
    endpoint: Endpoint | None = None,
    provider: str | None = None,
    calibrator: Calibrator | None = None,
    wait: bool = True,
    tokenizers: Tokenizers = SHARED,
) -> TokenCount:
    """Count the input tokens of a request, without any network, whatever is in it.

    Args:
        payload: The request's body, as a mapping or as JSON; text that is no JSON object
            counts as text.
        model: Whose tokens; prefixes of providers, `ft:` and dates are understood.
        endpoint: Which format the body has; `None` tells it from the body's fields.
        provider: Who serves the model, which calibration keeps apart; `None` tells it from
            the format.
        calibrator: What earlier calls taught.
        wait: Load a vocabulary that is on this machine, about half a second once. Without,
            a thread loads it, and until then texts are estimated.
        tokenizers: What counts the texts.

    Returns:
        Three quantiles, and how they came about.

    Raises:
        TypeError: `model` is no text.
        ValueError: There is no such `endpoint`.
    """
    _check(model, endpoint)
    body = as_body(payload)
    name = bare_name(model)
    chosen = endpoint or endpoint_of(body, name)
    tally = _tallied(name, tokenizing(model), _WALKS.get(chosen, _add_bare), body)
    counted = _sum(tally, tokenizers, wait=wait)
    if calibrator is None:
        return counted
    return calibrator.corrected(counted, provider=provider or _provider(chosen), model=name)


def _check(model: Any, endpoint: Any) -> None:
    if not isinstance(model, str):
        raise TypeError(f"model must be text, not {type(model).__name__}")
    if endpoint is not None and endpoint not in _ENDPOINTS:
        raise ValueError(f"endpoint must be one of {', '.join(_ENDPOINTS)}, not {endpoint!r:.40}")


def endpoint_of(body: Any, name: str = "") -> Endpoint:
    """Which format a body has, by its fields; where they leave it open, by the model's name."""
    if not isinstance(body, Mapping) or name.startswith("text-embedding"):
        return "text"
    if not _RESPONSES.isdisjoint(body):
        return "openai.responses"
    if "messages" not in body:
        return "text"
    if not _MESSAGES.isdisjoint(body) or _has_blocks(body):
        return "anthropic.messages"
    first = next(iter(_mappings(body["messages"])), {})
    is_chat = not _CHAT.isdisjoint(body) or first.get("role") in ("system", "developer")
    is_chat = is_chat or any("function" in tool for tool in _mappings(body.get("tools")))
    return "anthropic.messages" if "claude" in name and not is_chat else "openai.chat"


_RESPONSES = frozenset({"input", "instructions", "previous_response_id", "conversation"})
_MESSAGES = frozenset({"system", "stop_sequences", "thinking", "output_config", "top_k"})
_CHAT = frozenset({"max_completion_tokens", "response_format", "stream_options", "functions"})
_BLOCKS = frozenset({"image", "document", "tool_use", "tool_result", "thinking"})


def _tallied(name: str, rule: Tokenizing, walk: _Walk, body: Any) -> Tally:
    """What `body` is made of; of one that is no request, its JSON."""
    if isinstance(body, Mapping):
        tally = Tally(name, rule)
        try:
            walk(tally, body)
        except Exception:  # no provider takes it, but a count is never why a call fails
            body = as_json(body)
        else:
            return tally
    tally = Tally(name, rule)
    tally.text(body)
    return tally


def _add_bare(tally: Tally, body: Mapping[str, Any]) -> None:
    """Text alone, or several: of an embedding, or of the older completions."""
    given = body.get("input", body.get("prompt", body))
    many = given if isinstance(given, (list, tuple)) else [given]
    if many and all(isinstance(one, int) for one in many):
        tally.add(len(many))  # tokens already
        return
    for one in many:
        tally.text(one)


def _has_blocks(body: Mapping[str, Any]) -> bool:
    """Whether a tool or a block is of a form that only Anthropic's format knows."""
    if any("input_schema" in tool for tool in _mappings(body.get("tools"))):
        return True
    return any(
        str(block.get("type")) in _BLOCKS
        for message in _mappings(body.get("messages"))
        for block in _mappings(message.get("content"))
    )


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    found = map(plain, value) if isinstance(value, (list, tuple)) else ()
    return [one for one in found if isinstance(one, Mapping)]


def _provider(endpoint: str) -> str:
    return "anthropic" if endpoint.startswith("anthropic") else "openai"


def as_body(payload: Any) -> Any:
    """A request's body as a mapping; text that is no JSON object stays text."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        payload = bytes(payload).decode("utf-8", "replace")
    if isinstance(payload, str) and payload.lstrip()[:1] == "{":
        try:
            found = json.loads(payload)
        except (ValueError, RecursionError):
            return payload
        return found if isinstance(found, dict) else payload
    return plain(payload)


def highest(
    bodies: Sequence[Mapping[str, Any]], *, model: str, endpoint: Endpoint, tokenizers: Tokenizers
) -> list[int]:
    """The most tokens that each of `bodies` may be: `p95` of `count`, and nothing else."""
    name, rule, walk = bare_name(model), tokenizing(model), _WALKS[endpoint]
    found = []
    for body in bodies:
        tally = _tallied(name, rule, walk, body)
        (_, _, high), _ = _band(tally, tokenizers, wait=True)
        found.append(_up(high))
    return found


def _sum(tally: Tally, tokenizers: Tokenizers, *, wait: bool) -> TokenCount:
    (low, mid, high), is_exact = _band(tally, tokenizers, wait=wait)
    return TokenCount(
        p05=max(0, int(low)),
        p50=max(0, round(mid)),
        p95=_up(high),
        source="tokenizer" if is_exact else "heuristic",
        kind=_kind(tally),
        estimate=max(0, round(mid)),
        unknown=tuple(tally.unknown),
    )


def _up(tokens: float) -> int:
    return max(0, int(tokens + 0.999))


def _band(
    tally: Tally, tokenizers: Tokenizers, *, wait: bool
) -> tuple[tuple[float, float, float], bool]:
    """As few, the best guess, as many; and whether every text was counted exactly."""
    band = tally.low, tally.mid, tally.high
    is_exact = True
    for spread, texts in tally.texts.items():
        tokens, off, exactly = tokenizers.counts(texts, tally.rule, wait=wait)
        is_exact = is_exact and exactly
        band = _joined(band, tokens, off, spread)
    return band, is_exact


def _kind(tally: Tally) -> Kind:
    """What the request is made of; of text that is estimated, also which kind of text."""
    if tally.kind != "text" or tally.rule.is_own:
        return tally.kind
    longest = max((text for texts in tally.texts.values() for text in texts), key=len, default="")
    _, code, other = mixture(longest[:_SAMPLE])
    if max(code, other) <= 0.5:
        return "text"
    return "code" if code > other else "other_script"


def _joined(
    before: tuple[float, float, float], tokens: float, off: float, spread: Spread
) -> tuple[float, float, float]:
    """Bands are added as if all parts were wrong the same way: wider, and never too narrow."""
    low, mid, high = before
    down = tokens * exp(-off / tokens) if tokens else 0.0
    return low + down * (1.0 - spread[0]), mid + tokens, high + (tokens + off) * (1.0 + spread[1])


def _counted(texts: Sequence[str], rule: Tokenizing, count_many: CountMany | None) -> list[float]:
    if count_many is not None and rule.is_own:
        return [float(number) for number in count_many(texts)]
    bases = [None] * len(texts) if count_many is None else count_many(texts)
    return [_estimated(text, rule, base) for text, base in zip(texts, bases, strict=True)]


def _estimated(text: str, rule: Tokenizing, base: int | None) -> float:
    """By the ratios of the rule, from a count with another vocabulary or from an estimate."""
    guess, code, foreign = mixture(text)
    ratio = rule.prose + code * (rule.code - rule.prose) + foreign * (rule.foreign - rule.prose)
    return ratio * (guess if base is None else base)


def _error(rule: Tokenizing, *, has_vocabulary: bool) -> float:
    """Both errors as one share; they are independent of each other."""
    return sqrt(rule.error**2 + (0.0 if has_vocabulary else ERROR) ** 2)
