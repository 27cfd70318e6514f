"""A prompt cache that works as the providers' do: what a request reads, writes and is told.

Pure arithmetic on a clock that its owner turns. Not for several threads at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..request import Received
from .anthropic_prompt import TTLS, is_prewarm, look_back, read_anthropic
from .cache_diagnosis import Fingerprint, Fingerprints, anthropic_diagnosis, openai_diagnosis
from .cache_entries import CacheEntries
from .cache_rules import CacheRules
from .callers import Clock, caller_of, vendor_of
from .openai_automatic import Machines, automatic_prefix
from .openai_prompt import OPENAI_TTLS, OpenAIPrompt, owner_of, read_openai
from .prompt_walk import Mark, Prompt
from .refusals import Refusal, invalid

__all__ = ["PromptCache", "Reading"]

_IDLE, _HOUR, _DAY = 300.0, 3600.0, 86400.0


@dataclass(slots=True)
class Reading:
    """What the cache holds of one request, and what the request adds to it.

    Attributes:
        input_tokens: `uncached` + `cache_read` + what is in `cache_write`.
        cache_write: Tokens by time to live in the provider's words, such as `{"5m": 1200}`.
        is_prewarm: Whether nothing is to be generated.
        tells_writes: Whether the usage says what was written even where that is nothing.
        reply_fields: What the reply's object says besides, such as `diagnostics`.
        usage_fields: What its usage says besides.
        on_accept: What `accept` does, once.
        on_begin: What `begin` does, once.
    """

    input_tokens: int = 0
    cache_read: int = 0
    cache_write: dict[str, int] = field(default_factory=dict)
    is_prewarm: bool = False
    tells_writes: bool = False
    reply_fields: dict[str, Any] = field(default_factory=dict)
    usage_fields: dict[str, Any] = field(default_factory=dict)
    on_accept: list[Callable[[], None]] = field(default_factory=list, repr=False)
    on_begin: list[Callable[[], None]] = field(default_factory=list, repr=False)

    @property
    def uncached(self) -> int:
        return self.input_tokens - self.cache_read - sum(self.cache_write.values())

    def accept(self) -> None:
        """The request is taken: what it read lives on from its start."""
        while self.on_accept:
            self.on_accept.pop()()

    def begin(self) -> None:
        """The reply begins: what it writes can be read from now on."""
        self.accept()
        while self.on_begin:
            self.on_begin.pop()()


class PromptCache:
    """Holds prefixes of prompts for the three APIs, each by its provider's rules."""

    def __init__(self, clock: Clock, rules: CacheRules | None = None) -> None:
        self._clock = clock
        self._rules = rules or CacheRules()
        self._entries = CacheEntries(self._rules.max_entries)
        self._fingerprints = Fingerprints()
        self._machines = Machines()
        self._random = random.Random(self._rules.seed)

    def __len__(self) -> int:
        """Number of prefixes held, with those that expired and were not asked for since."""
        return len(self._entries)

    def clear(self) -> None:
        """Forget everything, and begin the chances anew."""
        self._entries.clear()
        self._fingerprints.clear()
        self._machines = Machines()
        self._random = random.Random(self._rules.seed)

    def read(self, received: Received) -> Reading | Refusal:
        """Look a request up, and let what it read live on.

        Call `begin()` of what is returned when the first byte of the reply leaves.

        Returns:
            The reading, or the 400 that the provider answers. Another endpoint than the
            three reads nothing, and so does a body that is no JSON object.
        """
        found = self.look_up(received)
        if isinstance(found, Reading):
            found.accept()
        return found

    def look_up(self, received: Received) -> Reading | Refusal:
        """As `read`, for a request that may still be refused: nothing is refreshed yet."""
        vendor = vendor_of(received)
        if vendor is None or not received.fields:
            return Reading()
        caller = caller_of(received, self._rules.workspaces)
        try:
            if vendor == "anthropic":
                return self._anthropic(received, caller)
            return self._openai(received, caller)
        except RecursionError:
            return invalid(vendor, "the body is nested too deeply to be read")

    def _anthropic(self, received: Received, caller: str) -> Reading | Refusal:
        prompt = read_anthropic(received, caller, self._rules)
        if isinstance(prompt, Refusal):
            return prompt
        least = self._rules.minimum_of(received.model or "")
        marks = [mark for mark in prompt.marks if prompt.end(mark.block) >= least]
        positions = {index for mark in marks for index in look_back(prompt, mark)}
        hit = self._find(prompt, [i for i in positions if prompt.end(i) >= least])
        reading = self._settled(received, prompt, marks, hit, TTLS)
        reading.is_prewarm = is_prewarm(received.fields)
        asked = received.fields.get("diagnostics")
        if isinstance(asked, dict):
            previous = asked.get("previous_message_id")
            told = None
            if isinstance(previous, str):
                before = self._fingerprints.find(previous, caller)
                told = anthropic_diagnosis(before, prompt, self._rules.diagnosis)
            reading.reply_fields["diagnostics"] = told
            # Only requests that opt in are kept to compare with.
            self._remember(received, prompt, caller, reading)
        return reading

    def _openai(self, received: Received, caller: str) -> Reading | Refusal:
        request = read_openai(received, caller, self._rules)
        if isinstance(request, Refusal):
            return request
        if request.options is None:
            return self._automatic(received, caller, request.prompt)
        prompt, least = request.prompt, self._rules.default_minimum_tokens
        marks = [mark for mark in prompt.marks if prompt.end(mark.block) >= least]
        hit = self._find(prompt, [i for i in request.looked_up if prompt.end(i) >= least])
        reading = self._settled(received, prompt, marks, hit, OPENAI_TTLS)
        reading.is_prewarm = request.options.is_prewarm
        reading.tells_writes = True
        if received.api == "openai.responses":
            self._tell_openai(received, caller, request, reading)
        return reading

    def _tell_openai(
        self, received: Received, caller: str, request: OpenAIPrompt, reading: Reading
    ) -> None:
        mode, ttl, _, comparison = request.options or (None, None, None, None)
        options = {"mode": mode, "ttl": ttl}
        if comparison is not None:
            options["comparison_response_id"] = comparison
            before = self._fingerprints.find(comparison, caller)
            told = openai_diagnosis(before, request.prompt, reading.cache_read)
            reading.reply_fields["prompt_cache_diagnostics"] = told
        reading.reply_fields["prompt_cache_options"] = options
        self._remember(received, request.prompt, caller, reading)

    def _automatic(self, received: Received, caller: str, prompt: Prompt) -> Reading:
        scope = f"{caller} {received.model} {owner_of(received)}"
        key = str(received.fields.get("prompt_cache_key") or "")
        machine = self._machines.route(prompt, scope, key, received.received_at)
        prefix = automatic_prefix(prompt, machine, self._rules.count)
        least = self._rules.default_minimum_tokens
        if prefix.tokens < least:
            return Reading(prefix.tokens)
        cached = prefix.cached(self._entries, self._clock.now(), at_least=least)
        if cached and self._is_evicted():
            self._entries.evict(prefix.keys)
            cached = 0
        reading = Reading(prefix.tokens, min(cached, prefix.tokens))
        retention = received.fields.get("prompt_cache_retention") or self._rules.retention
        ttl, at_most = (_IDLE, _HOUR) if retention == "in_memory" else (_DAY, None)
        for one in prefix.keys:
            reading.on_accept.append(partial(self._refresh, one, received.received_at))
            reading.on_begin.append(partial(self._keep, one, received.received_at, ttl, at_most))
        return reading

    def _find(self, prompt: Prompt, positions: list[int]) -> int | None:
        """The longest prefix held, unless chance has taken it."""
        now = self._clock.now()
        keys = [block.key for block in prompt.blocks]
        held = [index for index in positions if self._entries.is_live(keys[index], now)]
        if held and self._is_evicted():
            self._entries.evict(keys)
            return None
        return max(held, default=None)

    def _settled(
        self,
        received: Received,
        prompt: Prompt,
        marks: list[Mark],
        hit: int | None,
        ttls: Mapping[str, float],
    ) -> Reading:
        """Charge what lies between the prefix that was read and each mark to that mark."""
        reading = Reading(prompt.tokens, prompt.end(hit))
        began = received.received_at
        paid = reading.cache_read
        if hit is not None:
            reading.on_accept.append(partial(self._refresh, prompt.blocks[hit].key, began))
        for mark in marks:
            key, ttl = prompt.blocks[mark.block].key, ttls[mark.ttl]
            new = prompt.end(mark.block) - paid
            if new > 0:
                reading.cache_write[mark.ttl] = reading.cache_write.get(mark.ttl, 0) + new
                reading.on_begin.append(partial(self._entries.write, key, began, ttl))
                paid += new
            else:
                # A mark inside what was read costs nothing, and its prefix is held all the same.
                reading.on_accept.append(partial(self._refresh, key, began))
                reading.on_begin.append(partial(self._keep, key, began, ttl))
        return reading

    def _refresh(self, key: bytes, began: float) -> None:
        if self._entries.is_live(key, self._clock.now()):
            self._entries.refresh(key, began)

    def _keep(self, key: bytes, began: float, ttl: float, at_most: float | None = None) -> None:
        """Write what nobody pays for: an entry that lives keeps the lifetime it was paid for."""
        if self._entries.is_live(key, self._clock.now()):
            self._entries.refresh(key, began)
        else:
            self._entries.write(key, began, ttl, at_most=at_most)

    def _remember(self, received: Received, prompt: Prompt, caller: str, reading: Reading) -> None:
        reusable = reading.cache_read + sum(reading.cache_write.values())
        one = Fingerprint.of(prompt, caller, reusable)
        reading.on_begin.append(partial(self._fingerprints.keep, received.reply_id, one))

    def _is_evicted(self) -> bool:
        rate = self._rules.eviction_rate
        return rate > 0 and self._random.random() < rate
