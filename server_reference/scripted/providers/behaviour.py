"""A provider's limits and cache on the scripted server: what each call is charged and told."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ..answers import Answer, ErrorAnswer, Usage
from ..hooks import How, Observer, Provider
from ..ops import Head, Op
from ..request import Received
from .cache_rules import CacheRules
from .callers import Clock
from .prompt_cache import PromptCache, Reading
from .rate_limits import Admission, Limits, RateLimits
from .refusals import Refusal

__all__ = ["Behaviour"]

_MAX_OPEN = 10_000


@dataclass(slots=True)
class _Visit:
    """A call from its arrival to its end."""

    reading: Reading
    admission: Admission | None
    output: int | None = None  # None until it is answered


class Behaviour(Provider, Observer):
    """Both a provider and an observer: a server registers it as each.

    Args:
        rate_limits: `None` sets no limits, and says nothing of any.
        prompt_cache: `None` keeps no prompts.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        rate_limits: Limits | None = None,
        prompt_cache: CacheRules | None = None,
    ) -> None:
        self.limits = None if rate_limits is None else RateLimits(clock, rate_limits)
        self.cache = None if prompt_cache is None else PromptCache(clock, prompt_cache)
        self._count = (prompt_cache or CacheRules()).count
        self._visits: OrderedDict[int, _Visit] = OrderedDict()

    def reset(self) -> None:
        """Forget every prompt, and fill every limit."""
        if self.limits is not None:
            self.limits.clear()
        if self.cache is not None:
            self.cache.clear()

    def answer(self, received: Received) -> Answer | ErrorAnswer | None:
        """The error of a limit or of a broken cache rule; the empty answer to a pre-warming."""
        if received.api is None:
            return None
        reading = self._read(received)
        if isinstance(reading, Refusal):
            return reading.answer()
        admission = None
        if self.limits is not None:
            admitted = self.limits.admit(
                received, input_tokens=reading.input_tokens, cache_read=reading.cache_read
            )
            if isinstance(admitted, Refusal):
                # `headers` says on every reply what is left.
                said = self.limits.headers(received)
                own = {name: v for name, v in admitted.headers.items() if name not in said}
                return admitted._replace(headers=own).answer()
            admission = admitted
        reading.accept()
        self._visits[received.number] = _Visit(reading, admission)
        if len(self._visits) > _MAX_OPEN:
            self._visits.popitem(last=False)
        return Answer() if reading.is_prewarm else None

    def usage(self, received: Received, answer: Answer) -> Usage | None:
        """Tokens as the cache sees them, and an estimate of the output."""
        visit = self._visits.get(received.number)
        if visit is None:
            return None
        visit.output = self._output(answer) if answer.usage is None else answer.usage.output
        if self.cache is None or answer.usage is not None:
            return None
        reading = visit.reading
        return Usage(
            uncached=reading.uncached,
            cache_read=reading.cache_read,
            cache_write=reading.cache_write or dict.fromkeys(["30m"] * reading.tells_writes, 0),
            output=visit.output,
            reply_fields=reading.reply_fields,
            usage_fields=reading.usage_fields,
        )

    def headers(self, received: Received) -> Sequence[tuple[str, str]]:
        """What is left of the limits."""
        return [] if self.limits is None else list(self.limits.headers(received).items())

    def wrote(self, received: Received, op: Op, num_bytes: int) -> None:
        """What the call writes can be read once its reply, and no error, has begun."""
        visit = self._visits.get(received.number)
        if visit is not None and visit.output is not None and _is_good_head(op):
            visit.reading.begin()

    def ended(self, received: Received, how: How) -> None:
        """Charge what was generated, however the reply ended."""
        visit = self._visits.pop(received.number, None)
        if visit is not None and visit.admission is not None and visit.output is not None:
            visit.admission.settle(visit.output)

    def _read(self, received: Received) -> Reading | Refusal:
        if self.cache is not None:
            return self.cache.look_up(received)
        return Reading(self._count(received.body.decode("utf-8", "replace")))

    def _output(self, answer: Answer) -> int:
        spoken = [_joined(answer.thinking), _joined(answer.text)]
        for call in answer.tool_calls:
            given = call.arguments
            spoken += [
                call.name,
                given if isinstance(given, str) else msgspec.json.encode(given).decode(),
            ]
        return sum(map(self._count, spoken))


def _joined(text: str | Sequence[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _is_good_head(op: Op) -> bool:
    return isinstance(op, Head) and op.status < 400
