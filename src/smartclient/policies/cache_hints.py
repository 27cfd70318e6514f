"""Mark the prompts that are sent again, so that the provider reads them from its cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from .. import _observers
from .._cache_hints import CacheHints, hints_of
from .._call import Call, Reply, Trace
from .._clock import Clock
from .._errors import RefusedError
from .._flow import Flow, Next, Outcome, close, park, peek
from .._latch import Latch
from ..wire import Delta
from ..wire.encode import encode, is_alike

if TYPE_CHECKING:  # loaded with the first prompt that is long enough
    from ..catalog.facts import ModelFacts
    from ..catalog.lookup import CatalogLike
    from ..prompt_cache.flights import Flight
    from ..prompt_cache.hinting import Hinted, Hinter

__all__ = ["Hints"]

_LEAST_BYTES = 2048
"""Of a body: no provider keeps a shorter prompt, so nothing is done for it."""

_IDENTITY = (
    "authorization",
    "x-api-key",
    "api-key",
    "openai-organization",
    "openai-project",
    "x-goog-api-key",
    "x-goog-user-project",
    "cf-aig-authorization",
    "helicone-auth",
    "x-portkey-api-key",
    "x-portkey-virtual-key",
    "x-portkey-config",
)
_SIGNED = ("signature", "digest", "hmac", "sha256", "sha512", "md5", "checksum", "-hash")
_SIGNING = ("signature", "digest", "hawk", "oauth", "sharedkey")
"""Schemes of an `authorization` that covers the body, or may."""
_PROVIDERS = (".anthropic.com", ".openai.com")
_COUNTING = ("/count_tokens", "/input_tokens")
_UNTOUCHED = "untouched"  # what a call is told that has no hints


class Hints:
    """Place marks, learn from each reply, and say what became of them.

    Marks change no prompt: a model reads the same with and without. All attempts of a call
    carry the same ones. A failure in here leaves the call as its caller made it.

    Args:
        hints: What the user allows; text names the mode alone.
        catalog: Prices and rules of models; `None` takes those that come with this version.

    Raises:
        RefusedError: From `flow`: the caller's own marks would be refused by the provider.
    """

    def __init__(
        self, *, clock: Clock, hints: CacheHints | str | bool, catalog: CatalogLike | None = None
    ) -> None:
        self._clock, self._given, self._catalog = clock, hints, catalog
        self._made: dict[int, Hinter] = {}  # by process
        self._salt = os.urandom(16)

    def flow(self, call: Call, call_next: Next) -> Flow[Reply]:
        body = call.body
        if call.payload is None or not isinstance(body, bytes):
            return call_next(call)
        if len(body) < _LEAST_BYTES and b"cache_" not in body:
            return call_next(call)  # not even a generator of our own
        return self._hinted_flow(call, call_next)

    def _hinted_flow(self, call: Call, call_next: Next) -> Flow[Reply]:
        trace = call.trace
        if trace.hints is None:  # the first attempt: the others are sent the same
            hinted = self._look(call)
            trace.hints = _UNTOUCHED if hinted is None else _Edited(hinted, call)
            if hinted is not None and self._options.single_flight is not None:
                return (yield from self._boarded(call, call_next, self._options.single_flight))
        if trace.hints is _UNTOUCHED:
            return (yield from call_next(call))
        return (yield from self._sent(call, call_next, trace.hints))

    def _boarded(self, call: Call, call_next: Next, wait: float) -> Flow[Reply]:
        """Send it once nobody else is writing what it begins with, or as who writes it."""
        edited: _Edited = call.trace.hints
        flight = yield from self._board(edited.hinted, wait)
        try:
            edited.take(call)
            return (yield from self._sent(call, call_next, edited))
        finally:
            if flight is not None:
                flight.land()

    def _sent(self, call: Call, call_next: Next, edited: _Edited) -> Flow[Reply]:
        hinted, started = edited.hinted, self._clock.monotonic()
        hinted.sent()
        try:
            reply = yield from call_next(edited.on(call))
            if reply.status in (400, 422) and hinted.is_edited:
                reply = yield from self._without(call, call_next, reply, edited)
            if 200 <= reply.status < 300:
                self._safely(hinted.begun, started)
        finally:
            hinted.landed()
        if 200 <= reply.status < 300:
            reply.taps.append(_Watch(call.trace, hinted))
        return reply

    def _look(self, call: Call) -> Hinted | None:
        """The hints of this call; `None` where it has to stay as it is."""
        adapter, payload, model = call.adapter, call.payload, call.model
        if adapter is None or payload is None or model is None or _is_bound(call):
            return None
        try:
            return self._hinter().look(
                payload,
                endpoint=adapter.name,
                model=model,
                scope=(adapter.provider, str(call.origin), self._fingerprint(call)),
                headers=call.headers,
                facts=self._facts(model),
                now=self._clock.monotonic(),
            )
        except RefusedError:
            raise
        except Exception:  # hints are extra: the call goes out without them
            _observers.failed("no cache hints for this call, which is sent as it is", self)
            return None

    def _hinter(self) -> Hinter:
        process = os.getpid()
        made = self._made.get(process)
        if made is None:  # a forked child has its parent's locks
            from ..prompt_cache.hinting import Hinter

            # In one step: of threads that come at once each may make one, and all take the same.
            made = self._made.setdefault(process, Hinter(self._options))
            for parent in [one for one in self._made if one != process]:
                self._made.pop(parent, None)
        return made

    @property
    def _options(self) -> CacheHints:
        return hints_of(self._given)

    def _facts(self, model: str) -> ModelFacts | None:
        from ..catalog import catalog_of

        return catalog_of(self._catalog).model(model)

    def _fingerprint(self, call: Call) -> bytes:
        """Who calls, without the key itself: it is hashed with a secret of this process."""
        # Behind one address a gateway may tell those who call apart by its path.
        path = call.target.partition("?")[0]
        fields = [path, *(call.headers.get(name) or "" for name in _IDENTITY)]
        told = "\0".join(fields).encode("utf-8", "surrogatepass")
        return blake2b(told, key=self._salt, digest_size=16).digest()

    def _board(self, hinted: Hinted, wait: float) -> Flow[Flight | None]:
        """Wait while another call writes the beginning of this one; then lead, or just go."""
        flights, until = self._hinter().flights, self._clock.monotonic() + wait
        while True:
            left = until - self._clock.monotonic()
            if left <= 0:
                return None
            boarded = flights.board(hinted.wanted(), hinted.written())
            if not isinstance(boarded, Latch):
                return boarded
            is_open = yield from park(boarded, left)
            self._safely(hinted.plan_anew, self._clock.monotonic())
            if not is_open:
                return None

    def _safely(self, do: Callable[[float], None], now: float) -> None:
        """A failure of ours costs a hint, never the call."""
        try:
            do(now)
        except Exception:
            _observers.failed("no cache hints for this call", self)

    def _without(self, call: Call, call_next: Next, reply: Reply, edited: _Edited) -> Flow[Reply]:
        """Send the call as its caller made it, if what we put into it may have been refused.

        A provider names what it refuses; who stands between, or speaks its format only, may
        stumble over a text that is written as a block, and say anything.
        """
        failure = yield from peek(reply)
        told = "" if failure is None else f"{failure.message} {failure.code}".lower()
        is_named = "cache" in told or "diagnostics" in told
        if not is_named and call.origin.host.endswith(_PROVIDERS):
            return reply
        yield from close(reply)
        edited.hinted.leave("the provider refused our marks")
        edited.take(call)
        plain = yield from call_next(call)
        if 200 <= plain.status < 300:  # so it was ours, and not the caller's
            edited.hinted.refused(self._clock.monotonic())
            _observers.warned(
                "%s refused marks for its prompt cache: calls of %.200r go without them for an "
                'hour; cache_hints="off" turns them off for good',
                call.origin,
                call.model,
            )
        return plain


class _Edited:
    """What every attempt of a call sends."""

    __slots__ = ("_body", "_payload", "hinted")

    def __init__(self, hinted: Hinted, call: Call) -> None:
        self.hinted = hinted
        self.take(call)

    def take(self, call: Call) -> None:
        """Settle on what is decided now."""
        hinted = self.hinted
        if hinted.is_edited and not is_alike(call.payload, call.body):
            hinted.leave("its JSON cannot be written again as it came")
        self._payload = payload = hinted.payload
        self._body = encode(payload) if hinted.is_edited else call.body
        call.trace.cache = hinted.report()

    def on(self, call: Call) -> Call:
        """`call` with it."""
        if self._payload is call.payload:
            return call
        return msgspec.structs.replace(call, payload=self._payload, body=self._body)


class _Watch:
    """Learns from a reply what the cache did."""

    __slots__ = ("_attempt", "_diagnosed", "_hinted", "_reply_id", "_trace")

    def __init__(self, trace: Trace, hinted: Hinted) -> None:
        self._trace, self._hinted = trace, hinted
        self._attempt = trace.attempts[-1]
        self._reply_id: str | None = None
        self._diagnosed: str | bytes | None = None

    def feed(self, delta: Delta, at: float) -> None:
        # What it says of tokens is in the record of its attempt.
        if delta.reply_id is not None:
            self._reply_id, self._diagnosed = delta.reply_id, delta.diagnosed

    def comment(self, text: str) -> None:
        pass

    def after(self, outcome: Outcome) -> Flow[None]:
        is_failed = outcome.kind in ("failed", "incomplete")
        self._trace.hints = None  # with the prompt, which is sent no more
        self._trace.cache = self._hinted.ended(
            self._attempt,
            is_failed=is_failed,
            now=outcome.at,
            reply_id=self._reply_id,
            diagnosed=self._diagnosed,
        )
        yield from ()


def _is_bound(call: Call) -> bool:
    """Whether the body may not change any more: it is signed, or counts what is in it."""
    if call.target.partition("?")[0].endswith(_COUNTING):
        return True
    if call.is_prepared:
        return False  # its SDK signs it once we have made our edits
    headers = call.headers
    scheme = (headers.get("authorization") or "").partition(" ")[0].lower()
    if "hmac" in scheme or scheme in _SIGNING:
        return True
    names = "\n".join([name for name, _ in headers]).lower()
    return any(word in names for word in _SIGNED)
