"""Requests and tokens per minute and key, kept in token buckets as either provider counts them.

A bucket refills evenly, so that a limit of 60 per minute gives one per second back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

from ..request import Received
from .callers import Clock, Vendor, caller_of, key_of, vendor_of
from .rate_headers import Level, rate_headers
from .refusals import Refusal, refusal
from .retry_after import retry_after

__all__ = ["Admission", "Limits", "RateLimits"]

_MAX_KEYS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a key may take per minute; `None` does not limit.

    Args:
        input_tokens_per_minute: Known to Anthropic only, as is the next.
        by_key: Limits of single API keys in place of these.
        workspaces: API key → workspace; the keys of one share their limits.
        form: How a 429 says when to come back: a name in `RETRY_AFTER_FORMS`.
        should_retry: What a 429 says in `x-should-retry`; `None` leaves it out.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None
    by_key: Mapping[str, Limits] = field(default_factory=dict, repr=False)
    workspaces: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: str = "seconds"
    should_retry: bool | None = None

    def __post_init__(self) -> None:
        retry_after(0, form=self.form)  # an unknown form fails here
        for name in (one.name for one in fields(self) if one.name.endswith("_per_minute")):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ValueError(f"{name} must be at least 1, not {limit}; None does not limit")

    def of(self, vendor: Vendor) -> dict[str, int]:
        """The limits that a provider knows, by their names in its header fields."""
        limits = {"requests": self.requests_per_minute, "tokens": self.tokens_per_minute}
        if vendor == "anthropic":
            limits["input-tokens"] = self.input_tokens_per_minute
            limits["output-tokens"] = self.output_tokens_per_minute
        return {name: limit for name, limit in limits.items() if limit is not None}


class _Bucket:
    """A level that rises evenly to `limit` within a minute; taking may leave it below 0."""

    def __init__(self, limit: int, now: float) -> None:
        self.limit = limit
        self._level = float(limit)
        self._at = now

    def rise(self, now: float) -> None:
        passed = max(now - self._at, 0.0)
        self._level = min(self._level + passed * self.limit / 60, float(self.limit))
        self._at = now

    def take(self, amount: int) -> None:
        self._level -= amount

    def wait_for(self, amount: int) -> float:
        """Seconds until `amount` can be taken; for more than fits, until the bucket is full."""
        lacking = min(amount, self.limit) - self._level
        if amount > self.limit:
            return max(lacking, 0.0) * 60 / self.limit or 60.0
        # A level that rose in many small steps may lack a rounding error.
        return lacking * 60 / self.limit if lacking > 1e-6 else 0.0

    def level(self) -> Level:
        remaining = max(int(self._level + 1e-6), 0)
        return Level(self.limit, remaining, (self.limit - self._level) * 60 / self.limit)


class Admission:
    """A request that was let in."""

    def __init__(self, clock: Clock, vendor: Vendor | None, buckets: Mapping[str, _Bucket]) -> None:
        self._clock = clock
        self._vendor = vendor
        self._buckets = buckets

    def headers(self) -> dict[str, str]:
        """The provider's fields with what is left now."""
        if self._vendor is None:
            return {}
        now = self._clock.now()
        for bucket in self._buckets.values():
            bucket.rise(now)
        levels = {name: bucket.level() for name, bucket in self._buckets.items()}
        return rate_headers(self._vendor, levels, now=now)

    def settle(self, output_tokens: int) -> None:
        """Charge what was generated, where the provider charges it afterwards (Anthropic)."""
        if self._vendor == "anthropic":
            for name in ("output-tokens", "tokens"):
                if name in self._buckets:
                    self._buckets[name].take(output_tokens)


class RateLimits:
    """Lets requests in, or refuses them as their provider would.

    Anthropic counts input without what was read from the cache, and output once it is
    generated. OpenAI counts cached input too, and `max_tokens` before anything is generated;
    it gives nothing back. A refused request takes nothing.
    """

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._buckets: OrderedDict[tuple[Vendor, str], dict[str, _Bucket]] = OrderedDict()

    def admit(
        self, received: Received, *, input_tokens: int, cache_read: int = 0
    ) -> Admission | Refusal:
        """Charge a request, or refuse it.

        Args:
            input_tokens: All of its input, with what the cache holds of it.
            cache_read: How much of that the cache holds.
        """
        vendor = vendor_of(received)
        if vendor is None:
            return Admission(self._clock, None, {})
        buckets = self._buckets_of(vendor, received)
        admission = Admission(self._clock, vendor, buckets)
        headers = admission.headers()  # and lets the buckets rise
        charges = {
            name: amount
            for name, amount in _charges(vendor, received, input_tokens, cache_read)
            if name in buckets
        }
        waits = {name: buckets[name].wait_for(amount) for name, amount in charges.items()}
        short = max(waits, key=lambda name: waits[name], default=None)
        if short is not None and waits[short] > 0:
            refused = self._refuse(vendor, short, charges[short], buckets[short], waits[short])
            return refused.with_headers(headers)
        for name, amount in charges.items():
            if name != "output-tokens":
                buckets[name].take(amount)
        return admission

    def headers(self, received: Received) -> dict[str, str]:
        """The provider's fields for a reply to a request that nothing is charged for."""
        vendor = vendor_of(received)
        if vendor is None:
            return {}
        return Admission(self._clock, vendor, self._buckets_of(vendor, received)).headers()

    def clear(self) -> None:
        """Fill every bucket."""
        self._buckets.clear()

    def _buckets_of(self, vendor: Vendor, received: Received) -> dict[str, _Bucket]:
        caller = vendor, caller_of(received, self._limits.workspaces)
        if caller not in self._buckets:
            now = self._clock.now()
            limits = self._limits.by_key.get(key_of(received), self._limits).of(vendor)
            self._buckets[caller] = {n: _Bucket(limit, now) for n, limit in limits.items()}
            if len(self._buckets) > _MAX_KEYS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(caller)
        return self._buckets[caller]

    def _refuse(
        self, vendor: Vendor, name: str, amount: int, bucket: _Bucket, wait: float
    ) -> Refusal:
        what = name.replace("-", " ")
        hint = f"try again in {wait:.3f} s"
        if amount > bucket.limit:
            hint = f"a single request may take {bucket.limit:,}: send less"
        return refusal(
            "rate_limit_error" if vendor == "anthropic" else "rate_limit_exceeded",
            type=None if vendor == "anthropic" else name,
            message=f"rate limit of {bucket.limit:,} {what} per minute: "
            f"{bucket.level().remaining:,} left, {amount:,} asked for ({hint})",
            retry_after=wait,
            form=self._limits.form,
            now=self._clock.now(),
            should_retry=self._limits.should_retry,
        )


def _charges(
    vendor: Vendor, received: Received, input_tokens: int, cache_read: int
) -> Iterator[tuple[str, int]]:
    """What a request takes of each limit before it is answered."""
    yield "requests", 1
    if vendor == "anthropic":
        yield "tokens", input_tokens - cache_read
        yield "input-tokens", input_tokens - cache_read
        yield "output-tokens", 1  # one must be left; what is generated is taken in the end
    else:
        yield "tokens", input_tokens + _max_output(received.fields)


def _max_output(body: Mapping[str, object]) -> int:
    for name in ("max_completion_tokens", "max_output_tokens", "max_tokens"):
        limit = body.get(name)
        if isinstance(limit, int) and limit > 0:
            return limit
    return 0
