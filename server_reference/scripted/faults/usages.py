"""Faults in the counts of tokens: where they stand, what is null, and what they add up to.

Source: Anthropic API reference, "Messages" (`usage`); OpenAI API reference, "Chat completions"
(`usage`, `stream_options`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..answers import Usage
from ..ops import Script
from ..request import Received
from .formats import chat_chunk, insert, is_end, map_fields, usages, with_usage
from .parameters import Count, Number
from .pieces import Piece, Reply, UnfitError, event
from .presets import Break, preset

__all__ = [
    "cached_usage",
    "cumulative_usage",
    "no_usage",
    "nothing_cached",
    "null_usage",
    "reasoning_usage",
    "usage_after_finish",
    "usage_on_every_chunk",
    "usage_then_null",
    "zero_usage",
]

_CHUNK = "ollama PR#6784, PR#17485"
_LAST = "Read to the terminal marker; the last usage that is not null counts."


@preset("SHAPE", _CHUNK, right=_LAST, needs="stream", apis="openai.chat")
def usage_after_finish(prompt: Count = 7, completion: Count = 5) -> Break:
    """The only usage comes in a chunk of its own after the finish reason.

    Args:
        prompt: Tokens of the prompt.
        completion: Tokens of the answer.
    """

    def moved(reply: Reply, received: Received) -> Script:
        kept = [piece for piece in reply.pieces if not piece.fields.get("usage")]
        chunk = chat_chunk(reply, choices=[], usage=_counts(prompt, completion))
        return reply.script(insert(kept, len(kept) - 1, chunk))

    return moved


@preset("SHAPE", _CHUNK, right=_LAST, needs="stream", apis="openai.chat")
def usage_then_null(prompt: Count = 7, completion: Count = 5) -> Break:
    """The first chunk has the usage, and all others have null.

    Args:
        prompt: Tokens of the prompt.
        completion: Tokens of the answer.
    """

    def moved(reply: Reply, received: Received) -> Script:
        kept = [p for p in reply.pieces if p.fields.get("choices") or not p.fields]
        changed = list(map_fields(kept, lambda fields: fields | {"usage": None}))
        changed[0] = kept[0].with_fields(kept[0].fields | {"usage": _counts(prompt, completion)})
        return reply.script(changed)

    return moved


@preset(
    "SHAPE",
    _CHUNK,
    right="Each usage replaces the one before; they are never added.",
    needs="stream",
    apis="openai.chat",
)
def usage_on_every_chunk(prompt: Count = 7) -> Break:
    """Every chunk has the usage so far.

    Args:
        prompt: Tokens of the prompt; those of the answer grow by one from chunk to chunk.
    """

    def counted(reply: Reply, received: Received) -> Script:
        kept = [p for p in reply.pieces if p.fields.get("choices") or not p.fields]
        chunks = (
            piece.with_fields(piece.fields | {"usage": _counts(prompt, number)})
            if piece.fields
            else piece
            for number, piece in enumerate(kept)
        )
        return reply.script(chunks)

    return counted


@preset("SHAPE", _CHUNK, right="A null count is none; what was known before stays.")
def null_usage() -> Break:
    """Every count of the last usage is null."""

    def nulled(reply: Reply, received: Received) -> Script:
        pieces = list(reply.pieces)
        at = _last_usage(reply)

        def change(fields: dict[str, Any]) -> dict[str, Any]:
            for holder in usages(fields):
                holder["usage"] = dict.fromkeys(holder["usage"])
            return fields

        pieces[at : at + 1] = map_fields(pieces[at : at + 1], change)
        return reply.script(pieces)

    return nulled


@preset(
    "COST",
    "litellm#9812, #6575, #11364, #40006, PR#31282; browser-use#5305; anthropic-sdk-python 2.14, "
    "run",
    right="Three parts that add up to the input, each billed once; Anthropic's input_tokens leaves "
    "cached ones out, OpenAI's prompt_tokens has them in it.",
)
def cached_usage(
    uncached: Count = 3, read: Count = 0, write: Count = 12304, output: Count = 550
) -> Break:
    """The usage has tokens read from the prompt cache, written to it, or both.

    Args:
        uncached: Tokens of the input that the cache has no part in.
        read: Tokens read from the cache.
        write: Tokens written to it, for five minutes.
        output: Tokens of the answer.
    """
    written = {"5m": write} if write else {}
    return _counted(Usage(uncached, read, written, output))


@preset(
    "COST",
    "agent-framework#7143; tensorzero#5481; langchainjs#10249; LibreChat agents PR#150",
    right="Each usage replaces the one before: the last one counts, the sum does not.",
    needs="stream",
    apis="anthropic.messages",
)
def cumulative_usage(steps: Number = 2) -> Break:
    """Several `message_delta` events come, each with the output so far.

    Args:
        steps: How many come before the last one.
    """

    def repeated(reply: Reply, received: Received) -> Script:
        at = next((n for n, piece in enumerate(reply.pieces) if is_end(piece)), None)
        if at is None:
            raise UnfitError("the stream has no message_delta left")
        last = reply.pieces[at].fields
        so_far = [last["usage"] | {"output_tokens": number} for number in range(1, steps + 1)]
        delta = {"stop_reason": None, "stop_sequence": None}
        more = [
            event({"type": "message_delta", "delta": delta, "usage": usage}, "message_delta")
            for usage in so_far
        ]
        return reply.script(insert(reply.pieces, at, *more))

    return repeated


@preset(
    "COST",
    "pydantic-ai PR#6244, PR#6141",
    right="Details are parts of their total, and never added to it.",
)
def reasoning_usage(output: Count = 100, reasoning: Count = 80) -> Break:
    """Most of the output is reasoning, told beside the total.

    Args:
        output: Tokens of the answer, the reasoning in them.
        reasoning: Those of the reasoning.
    """
    return _counted(Usage(7, output=output, reasoning=reasoning))


@preset(
    "COST",
    "openllmetry PR#3142; litellm#37992; pydantic-ai PR#6796",
    right="Zero is a number: no estimate takes its place.",
)
def zero_usage() -> Break:
    """Every count of the usage is 0."""
    return _counted(Usage())


@preset(
    "COST",
    "litellm#14457, PR#30630, PR#37558, PR#37734, #34147, PR#36008; posthog-js PR#4664",
    right="Unknown is unknown, not 0: report a lower bound, and that it is not final.",
)
def no_usage() -> Break:
    """The reply says nothing of its usage."""

    def silent(fields: dict[str, Any]) -> dict[str, Any]:
        for holder in usages(fields):
            del holder["usage"]
        return fields

    def removed(reply: Reply, received: Received) -> Script:
        kept = _without_usage_chunk(reply.pieces)
        return reply.script(map_fields(kept, silent))

    return removed


@preset(
    "CACHE",
    'Anthropic API guide, "Prompt caching" (minimum length, lookback); skim#306',
    right="Nothing read and nothing written in spite of a mark: warn that the prompt is too short "
    "or the last mark too far.",
)
def nothing_cached(uncached: Count = 900, output: Count = 5) -> Break:
    """Nothing was read from the prompt cache and nothing written, whatever was marked.

    Args:
        uncached: Tokens of the input.
        output: Tokens of the answer.
    """
    return _counted(Usage(uncached, output=output))


def _counted(usage: Usage) -> Break:
    return lambda reply, received: reply.script(with_usage(reply, received, usage))


def _counts(prompt: int, completion: int) -> dict[str, int]:
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}


def _last_usage(reply: Reply) -> int:
    found = [n for n, piece in enumerate(reply.pieces) if any(usages(piece.fields))]
    if not found:
        raise UnfitError("the reply has no usage; ask for it with stream_options.include_usage")
    return found[-1]


def _without_usage_chunk(pieces: Iterable[Piece]) -> list[Piece]:
    """Without a chunk that only had the usage."""
    return [p for p in pieces if not (p.fields.get("usage") and p.fields.get("choices") == [])]
