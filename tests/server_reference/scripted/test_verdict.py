"""Each rule of the verdict finds a guilty client, and leaves an innocent one alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

import server_reference
from server_reference.scripted import Answer, ErrorAnswer, ManualClock
from server_reference.scripted.ops import End, Fin, Op, Pause, Script
from server_reference.scripted.request import Received
from server_reference.scripted.server import ScriptedServer
from server_reference.scripted.verdict import VERDICT_RULES, Verdict, VerdictError
from tests.layers import ROOT
from tests.server_reference.scripted.raw_client import CHAT, KEY, RawClient, chat

STREAM = chat(stream=True)
MESSAGES = "/v1/messages"


@dataclass
class Broken:
    """A fault: `put` takes the place of all that follows the event with `after` in it."""

    after: bytes
    put: Sequence[Op]

    def apply(self, script: Script, received: Received) -> Script:
        at = next(n for n, op in enumerate(script) if self.after in getattr(op, "data", b""))
        return [*script[: at + 1], *self.put]


CUT = Answer(["Hel", "lo"]) | Broken(b"Hel", [Fin()])
HANGING = Answer(["Hel", "lo"]) | Broken(b"Hel", [Pause()])
SLOW_END = Answer("Hello") | Broken(b"[DONE]", [Pause(), End()])
ENDED_EARLY = Answer(["Hel", "lo"]) | Broken(b"Hel", [End()])


class Tried:
    """What a client does is written with these."""

    def __init__(self, server: ScriptedServer, client: RawClient, clock: ManualClock) -> None:
        self.server = server
        self.client = client
        self._clock = clock

    def ask(self, *waits: float, body: bytes | None = None, **headers: str) -> None:
        """Ask, and ask again after each wait."""
        self.client.ask(body, **headers)
        for wait in waits:
            self._clock.advance(wait)
            self.client.ask(body, **headers)

    def report(self, body: bytes | None = None, target: str = CHAT, **outcome: object) -> None:
        """Ask, and say what the caller made of the answer."""
        with self.server.call() as call:
            self.client.ask(body, target)
            call.outcome(**outcome)


Acts = Callable[[Tried], None]


@dataclass
class Case:
    """What the server plays; how a client goes wrong with it, and how not."""

    then: object
    guilty: Acts
    innocent: Acts
    headers: dict[str, str] = field(default_factory=dict)


def each(*acts: Callable[[Tried], object]) -> Acts:
    def all_of(it: Tried) -> None:
        for act in acts:
            act(it)

    return all_of


def close_at(marker: bytes) -> Acts:
    def act(it: Tried) -> None:
        it.client.send(STREAM)
        it.client.read(until=marker)
        it.client.close()

    return act


def abandon(*, closes: bool) -> Acts:
    def act(it: Tried) -> None:
        with it.server.call() as call:
            it.client.send(STREAM)
            it.client.read(until=b"Hel")
            call.outcome(abandoned=True)
            if closes:
                it.client.close()

    return act


def error_of(module: str) -> BaseException:
    return type("SomeError", (Exception,), {"__module__": module})("no")


def asked_then(act: str, times: int) -> Acts:
    def acts(it: Tried) -> None:
        for number in range(times):
            it.client.ask(chat(str(number)))
            getattr(it.client, act)()

    return acts


def leaking(it: Tried) -> None:
    asked_then("leave", 2)(it)
    end = time.monotonic() + 0.3  # these two are idle for a while before the last one comes
    while time.monotonic() < end:
        asked_then("leave", 1)(it)
    asked_then("leave", 1)(it)


def reused(it: Tried) -> None:
    for number in range(3):
        it.client.ask(chat(str(number)))


CASES = {
    "retry_storm": Case(ErrorAnswer(500), lambda it: it.ask(0, 0), lambda it: it.ask(0.5, 1.0)),
    "retry_after_ignored": Case(
        ErrorAnswer(429, headers={"retry-after": "2"}),
        lambda it: it.ask(1.5),
        lambda it: it.ask(2.0),
    ),
    "retried_for_nothing": Case(ErrorAnswer(401), lambda it: it.ask(1.0), lambda it: it.ask()),
    "body_resent_empty": Case(
        ErrorAnswer(500),
        each(lambda it: it.ask(), lambda it: it.ask(body=b"")),
        lambda it: it.ask(1.0),
    ),
    "duplicate_after_success": Case(
        "Hello",
        each(lambda it: it.ask(), lambda it: it.ask(x_stainless_retry_count="1")),
        each(lambda it: it.ask(), lambda it: it.ask()),
    ),
    "replayed_stream": Case(
        CUT, lambda it: it.ask(1.0, body=STREAM), lambda it: it.ask(body=STREAM)
    ),
    "stream_not_drained": Case(
        "Hello",
        each(close_at(b"[DONE]"), close_at(b"[DONE]")),
        lambda it: it.ask(1.0, body=STREAM),
    ),
    "no_reset_on_abandon": Case(HANGING, abandon(closes=False), abandon(closes=True)),
    "connection_per_call": Case("Hello", asked_then("close", 3), reused),
    "connections_leaked": Case("Hello", leaking, reused),
    "misplaced_key": Case(
        "Hello",
        lambda it: it.client.ask(target=f"{CHAT}?api_key={KEY}"),
        lambda it: it.client.ask(target=f"{CHAT}?keys=2"),
    ),
    "truncated_accepted": Case(
        CUT,
        lambda it: it.report(STREAM, text="Hel"),
        lambda it: it.report(STREAM, error=error_of("mine")),
    ),
    "error_swallowed": Case(
        Answer("Hel", error=ErrorAnswer(529)),
        lambda it: it.report(STREAM, text="Hel"),
        lambda it: it.report(STREAM, error=error_of("mine")),
    ),
    "answer_differs": Case(
        Answer("Grüße"),
        lambda it: it.report(STREAM, text="Gr��e"),
        lambda it: it.report(STREAM, text="Grüße"),
    ),
    "foreign_error": Case(
        CUT,
        lambda it: it.report(STREAM, error=error_of("httpx2")),
        lambda it: it.report(STREAM, error=error_of("openai")),
        headers={"user_agent": "OpenAI/Python 3.57.0"},
    ),
    "key_in_error": Case(
        ErrorAnswer(401),
        lambda it: it.report(error=ValueError(f"illegal header value b'Bearer {KEY}'")),
        lambda it: it.report(error=ValueError("illegal header value")),
    ),
}

every_case = pytest.mark.parametrize("name", CASES)


def judged(then: object, *acts: Acts, **headers: str) -> Verdict:
    """The verdict on a client that does `acts`."""
    clock = ManualClock()
    with (
        server_reference.scripted(then, clock=clock) as server,
        RawClient(server, **headers) as client,
    ):
        each(*acts)(Tried(server, client, clock))
        return server.verdict()


@every_case
def test_the_guilty_one_is_found(name):
    case = CASES[name]

    verdict = judged(case.then, case.guilty, **case.headers)

    assert name in verdict.names


@every_case
def test_the_innocent_one_is_left_alone(name):
    case = CASES[name]

    verdict = judged(case.then, case.innocent, **case.headers)

    assert verdict.findings == ()


def test_every_rule_has_a_case():
    assert sorted(CASES) == sorted(rule.name for rule in VERDICT_RULES)


def test_every_rule_says_what_it_is_about():
    assert [rule.name for rule in VERDICT_RULES if len(rule.doc) < 40] == []


@pytest.mark.parametrize(
    "waits",
    [
        pytest.param([0.01, 0.02], id="at-once"),
        pytest.param([1.0, 1.0, 1.0], id="waits-do-not-grow"),
        pytest.param([1, 2, 4, 8, 16], id="too-many"),
    ],
)
def test_a_retry_storm(waits):
    assert judged(ErrorAnswer(500), lambda it: it.ask(*waits)).names == ["retry_storm"]


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        pytest.param(ErrorAnswer(400), None, id="400"),
        pytest.param(ErrorAnswer(404), None, id="404"),
        pytest.param(ErrorAnswer(501), None, id="501"),
        pytest.param(ErrorAnswer(429, type="insufficient_quota"), None, id="quota"),
        pytest.param(ErrorAnswer(429, code="credit_balance_exhausted"), None, id="credit"),
        pytest.param(ErrorAnswer(503, headers={"x-should-retry": "false"}), None, id="told-not-to"),
    ],
)
def test_what_must_not_be_sent_again(reply, body):
    assert judged(reply, lambda it: it.ask(1.0, body=body)).names == ["retried_for_nothing"]


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(ErrorAnswer(408), id="408"),
        pytest.param(ErrorAnswer(409), id="409"),
        pytest.param(ErrorAnswer(429), id="429"),
        pytest.param(ErrorAnswer(529), id="529"),
        pytest.param(ErrorAnswer(400, headers={"x-should-retry": "true"}), id="told-to"),
    ],
)
def test_what_may_be_sent_again(reply):
    assert judged(reply, lambda it: it.ask(1.0)).is_clean


def test_another_key_may_try_what_the_first_was_refused():
    def act(it: Tried) -> None:
        it.ask()
        it.ask(authorization="Bearer sk-another-0123456789")

    assert judged(ErrorAnswer(401), act).is_clean


@pytest.mark.parametrize(
    ("headers", "asked"),
    [
        pytest.param({"retry-after-ms": "250", "retry-after": "9"}, 0.25, id="finer-wins"),
        pytest.param({"retry-after": "0.5"}, 0.5, id="fraction"),
        pytest.param({"retry-after": "100000"}, 100_000, id="long"),
    ],
)
def test_the_wait_that_was_asked_for(headers, asked):
    reply = ErrorAnswer(429, headers=headers)

    assert judged(reply, lambda it: it.ask(asked)).is_clean
    assert judged(reply, lambda it: it.ask(asked * 0.8)).names == ["retry_after_ignored"]


@pytest.mark.parametrize("value", ["-5", "inf", "nan", "soon", ""])
def test_a_wait_that_cannot_be_read_binds_nobody(value):
    assert judged(ErrorAnswer(429, headers={"retry-after": value}), lambda it: it.ask(1.0)).is_clean


@pytest.mark.parametrize(
    ("then", "marker"),
    [
        pytest.param(SLOW_END, b"[DONE]", id="before-the-end-was-sent"),
        pytest.param(Answer("Hello " * 60), b"Hello", id="with-bytes-unread"),
    ],
)
def test_a_stream_is_not_drained(then, marker):
    assert judged(then, close_at(marker)).names == ["stream_not_drained"]


def test_who_closes_after_the_last_stream_is_innocent():
    assert judged("Hello", lambda it: it.ask(body=STREAM), lambda it: it.client.close()).is_clean


def test_who_abandons_a_stream_may_close_with_bytes_unread():
    def act(it: Tried) -> None:
        with it.server.call() as call:
            close_at(b"Hello")(it)
            call.outcome(abandoned=True)

    assert judged(Answer("Hello " * 60), act).is_clean


def test_a_stream_that_ends_cleanly_without_its_last_event_is_truncated():
    verdict = judged(ENDED_EARLY, lambda it: it.report(STREAM, text="Hel"))

    assert verdict.names == ["truncated_accepted"]


@pytest.mark.parametrize("target", [CHAT, MESSAGES, "/v1/responses"])
@pytest.mark.parametrize("stream", [True, False])
def test_the_text_is_read_from_every_format(target, stream):
    body = chat(stream=stream, max_tokens=9, input="hi")
    then = Answer(["Hel", "lo"], thinking="Hm")

    assert judged(then, lambda it: it.report(body, target, text="Hello")).is_clean
    assert judged(then, lambda it: it.report(body, target, text="Hell")).names == ["answer_differs"]


@pytest.mark.parametrize("target", [CHAT, MESSAGES, "/v1/responses"])
@pytest.mark.parametrize("stream", [True, False])
def test_an_error_is_seen_in_every_format(target, stream):
    body = chat(stream=stream, max_tokens=9, input="hi")
    then = Answer("Hel", error=ErrorAnswer(529))

    verdict = judged(then, lambda it: it.report(body, target, text="Hel"))

    assert verdict.names == ["error_swallowed"]


@pytest.mark.parametrize(
    ("key", "target", "is_misplaced"),
    [
        pytest.param("sk-ant-0123456789", CHAT, True, id="anthropic-to-openai"),
        pytest.param("sk-proj-0123456789", MESSAGES, True, id="openai-to-anthropic"),
        pytest.param("sk-ant-0123456789", MESSAGES, False, id="at-home"),
    ],
)
def test_a_key_of_another_vendor(key, target, is_misplaced):
    body = chat(max_tokens=9)

    verdict = judged("Hello", lambda it: it.client.ask(body, target), authorization=f"Bearer {key}")

    assert verdict.names == ["misplaced_key"] * is_misplaced
    assert key not in str(verdict)


def test_a_finding_names_its_requests():
    verdict = judged(ErrorAnswer(401), lambda it: it.ask(1.0))

    assert [finding.requests for finding in verdict.findings] == [(1, 2)]


def test_check_raises_with_all_findings():
    verdict = judged(ErrorAnswer(401), lambda it: it.ask(0, 0))

    with pytest.raises(VerdictError, match=r"(?s)retry_storm: call 1 was tried 3.*after a 401"):
        verdict.check()


def test_a_rule_can_be_ignored_by_name():
    with server_reference.scripted(ErrorAnswer(401)) as server, RawClient(server) as client:
        client.ask()
        client.ask()

        assert server.verdict(ignore=["retried_for_nothing"]).is_clean
        with pytest.raises(ValueError, match="did you mean 'retry_storm'"):
            server.verdict(ignore=["retry_strom"])


def test_every_rule_is_on_its_page_with_its_sentence():
    page = (ROOT / "docs/reference/verdicts.md").read_text()

    rows = [f"| `{rule.name}` | {rule.doc.rstrip('.')} |" for rule in VERDICT_RULES]

    assert [row for row in rows if row not in page] == []
