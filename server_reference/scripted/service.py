"""What happens to a request between its front and its script: keys, providers, rules, faults."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import replace

from ..credentials import offered_keys
from .answers import Answer, ErrorAnswer, Faulted, Usage
from .clock import Clock
from .compile import Compiler, NoFormatError, error_reply, estimate, json_reply
from .hooks import Connection, Fault, How, Observer, Provider
from .ops import Head, Op, Script
from .playing import LiveScript, Playable
from .request import Received
from .rules import ExhaustedError, NoRuleError, RuleBook
from .then import Item, check_script, is_script
from .timing import resplit

__all__ = ["ScriptedService"]

_log = logging.getLogger(__name__)

_MOST_CALLS = 10_000
_MOST_DEPTH = 16
_DEFAULT = Answer("Hello!")
_CODES: dict[type[Exception], str] = {
    NoRuleError: "no_rule",
    ExhaustedError: "rules_exhausted",
    NoFormatError: "no_format",
}
_FINAL = {"x-should-retry": "false"}


class ScriptedService:
    """Answers requests, and tells the observers.

    Args:
        api_keys: Keys that are let in; empty asks for none.
        providers: Asked in this order, the first that answers wins.
        observers: Told of everything.
        faults: Break every reply that is played.
        retry_after_ms: What every refusal without one of its own says in `retry-after-ms`.
    """

    def __init__(
        self,
        rules: RuleBook,
        *,
        clock: Clock,
        seed: int = 0,
        api_keys: Sequence[str] = (),
        providers: Sequence[Provider] = (),
        observers: Sequence[Observer] = (),
        faults: Sequence[Fault] = (),
        retry_after_ms: int | None = None,
    ) -> None:
        self.rules = rules
        self.clock = clock
        self.observers = list(observers)
        self.is_stopping = False
        self._providers = tuple(providers)
        self._faults = tuple(faults)
        self._retry_after_ms = retry_after_ms
        self._api_keys = [key.encode() for key in api_keys]
        self._compiler = Compiler(seed=seed)
        self._num_connections = 0
        self._num_requests = 0
        self._attempts: OrderedDict[str, int] = OrderedDict()

    def reset(self) -> None:
        """Count attempts anew, and let the providers forget."""
        self._attempts.clear()
        for provider in self._providers:
            provider.reset()

    # What happens.

    def opened(self, *, is_tls: bool) -> Connection:
        """Note a connection."""
        self._num_connections += 1
        connection = Connection(self._num_connections, self.clock.now(), is_tls)
        self._tell("connection_opened", connection)
        return connection

    def closed(self, connection: Connection, reason: str) -> None:
        self._tell("connection_closed", connection, reason)

    def receive(
        self,
        connection: Connection,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        stream_id: int | None = None,
    ) -> Received:
        connection.num_requests += 1
        self._num_requests += 1
        received = Received(
            method,
            target,
            tuple(headers),
            body,
            connection.number,
            self._num_requests,
            received_at=self.clock.now(),
            protocol=connection.protocol,
            stream_id=stream_id,
        )
        object.__setattr__(received, "attempt", self._attempt(received))
        self._tell("request", received)
        return received

    def wrote(self, received: Received, op: Op, num_bytes: int) -> None:
        self._tell("wrote", received, op, num_bytes)

    def ended(self, received: Received, how: How) -> None:
        self._tell("ended", received, how)

    def broke(self, received: Received, error: BaseException) -> None:
        _log.warning("request %d could not be answered", received.number, exc_info=error)
        self._tell("broke", received, error)

    def _tell(self, what: str, *told: object) -> None:
        """Call a method of every observer; one that fails is no matter of the client's."""
        for observer in self.observers:
            try:
                getattr(observer, what)(*told)
            except Exception:
                _log.exception("%s.%s failed; it must not raise", type(observer).__name__, what)

    # What is answered.

    def script(self, received: Received) -> Playable:
        try:
            item = self._refusal(received)
            return self._play(self.rules.pick(received) if item is None else item, received)
        except BaseException as error:  # a rule's `pytest.fail` or `exit` must not end the server
            return self._failed(error, received)

    def _attempt(self, received: Received) -> int:
        key = received.call_key
        seen = self._attempts.pop(key, 0) + 1
        self._attempts[key] = seen
        if len(self._attempts) > _MOST_CALLS:
            self._attempts.popitem(last=False)
        own = received.header("x-stainless-retry-count")
        return int(own) + 1 if own is not None and own.isdecimal() and len(own) < 10 else seen

    def _refusal(self, received: Received) -> Item | None:
        """What is answered before the rules are asked."""
        if self._api_keys and not self._is_let_in(received):
            message = "the api key is missing or wrong; use one that the server was given"
            return ErrorAnswer(401, message=message)
        for provider in self._providers:
            if (answer := provider.answer(received)) is not None:
                return answer
        if received.api is not None and not received.fields:
            message = f"the body ({len(received.body)} bytes) is no JSON object; send one"
            return ErrorAnswer(400, message=message)
        return None

    def _is_let_in(self, received: Received) -> bool:
        offered = [key.encode() for key in offered_keys(dict(received.headers))]
        return any(hmac.compare_digest(one, key) for one in offered for key in self._api_keys)

    def _play(
        self, item: Item | Awaitable[Item] | LiveScript, received: Received, depth: int = 0
    ) -> Playable:
        if isinstance(item, AsyncGenerator):
            return item
        if isinstance(item, Awaitable):
            return self._awaited(item, received, depth)
        if (script := self._direct(item, received)) is not None:
            for fault in self._faults:
                script = _checked(fault.apply(script, received))
            answer, is_broken = _answer_in(item)
            if answer is not None and (is_broken or self._faults):
                script = resplit(answer, script)
            milliseconds = self._retry_after_ms
            return script if milliseconds is None else _hurrying(script, milliseconds)
        if callable(item) and depth < _MOST_DEPTH:
            return self._play(item(received), received, depth + 1)
        raise TypeError(
            f"a rule's function returned {type(item).__name__}; return text, an Answer, an "
            "ErrorAnswer or a list of operations"
        )

    def _direct(self, item: Item, received: Received) -> Script | None:
        """The script of everything but a function."""
        if isinstance(item, str):
            item = Answer(item)
        if isinstance(item, Answer | ErrorAnswer):
            return self._compiled(item, received, event_by_event=bool(self._faults))
        if isinstance(item, Faulted | Fault):
            return _checked(self._broken(item, received))
        return _checked(item) if is_script(item) else None

    async def _awaited(
        self, item: Awaitable[Item], received: Received, depth: int
    ) -> Script | LiveScript:
        try:
            script = self._play(await item, received, depth + 1)
            return await script if isinstance(script, Awaitable) else script
        except GeneratorExit:
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the client has left, or the server stops
            return self._failed(error, received)

    def _broken(self, item: Faulted | Fault, received: Received) -> Script:
        """A script that a fault has changed."""
        if isinstance(item, Faulted):
            if isinstance(item.base, Faulted):
                return item.fault.apply(self._broken(item.base, received), received)
            base = self._compiled(item.base, received, event_by_event=True)
            return item.fault.apply(base, received)
        if received.api is None:
            base = json_reply({})
        else:
            base = self._compiled(_DEFAULT, received, event_by_event=True)
        return item.apply(base, received)

    def _compiled(
        self, item: Answer | ErrorAnswer, received: Received, *, event_by_event: bool = False
    ) -> Script:
        headers = [field for one in self._providers for field in one.headers(received)]
        if isinstance(item, ErrorAnswer):
            script: Script = error_reply(item, received, headers=headers)
        else:
            script = self._compiler.answer(
                item,
                received,
                usage=self._usage(item, received),
                headers=headers,
                event_by_event=event_by_event or item.fault is not None,
            )
        return script if item.fault is None else _checked(item.fault.apply(script, received))

    def _usage(self, answer: Answer, received: Received) -> Usage | None:
        """What a provider says of it; the answer's own numbers go before."""
        found = None
        for provider in self._providers:
            found = provider.usage(received, answer) or found
        if found is None or answer.usage is not None:
            return answer.usage
        if found.output:
            return found
        own = estimate(answer, received)
        return replace(found, output=own.output, reasoning=own.reasoning)

    def _failed(self, error: BaseException, received: Received) -> Script:
        """A reply that says what is wrong with the rules, and that no SDK sends again."""
        if isinstance(error, NoRuleError | ExhaustedError | NoFormatError):
            code = _CODES[type(error)]
            answer = ErrorAnswer(400, message=_said(error), code=code, headers=_FINAL)
        else:
            self.broke(received, error)
            message = f"a rule failed: {type(error).__name__}: {_said(error)}"
            answer = ErrorAnswer(500, message=message, code="rule_failed", headers=_FINAL)
        return error_reply(answer, received)


def _answer_in(item: object) -> tuple[Answer | None, bool]:
    """The answer that an item comes from, if any, and whether a fault breaks it."""
    base = item
    while isinstance(base, Faulted):
        base = base.base
    if not isinstance(base, Answer):
        return None, False
    return base, base is not item or base.fault is not None


def _said(error: BaseException) -> str:
    """An error's text, whatever it is, as UTF-8 can hold it."""
    try:
        text = str(error)
    except Exception as second:
        text = f"(its text cannot be had: {type(second).__name__})"
    return text.encode("utf-8", "replace").decode()


def _hurrying(script: Script, milliseconds: int) -> Script:
    """A refusal after which a client that sleeps in real time soon comes back."""
    field = ("retry-after-ms", str(milliseconds))
    return [
        replace(op, fields=(*op.fields, field))
        if isinstance(op, Head)
        and op.status >= 400
        and all(name.lower() != field[0] for name, _ in op.fields)
        else op
        for op in script
    ]


def _checked(script: Script) -> Script:
    check_script(script)
    return script
