from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from server_reference.scripted.answers import Answer, ErrorAnswer, Usage
from server_reference.scripted.clock import ManualClock
from server_reference.scripted.faults.pieces import Reply
from server_reference.scripted.hooks import Observer, Provider
from server_reference.scripted.ops import Body, End, Fin, Head, Wait
from server_reference.scripted.request import Received
from server_reference.scripted.rules import RuleBook, rules_of
from server_reference.scripted.service import ScriptedService
from tests.server_reference.scripted.received import a_request, bodies, joined


class Cut:
    """A fault: the first two events, and the end of the connection."""

    def apply(self, script, received):
        return [*script[:3], Fin()]


class Whole:
    """A fault that puts a reply together again from its events, as presets do."""

    def apply(self, script, received):
        return Reply.of(script).script()


class Broken(Observer):
    def __init__(self):
        self.errors = []

    def broke(self, received, error):
        self.errors.append(error)


def a_service(then="Hi", **settings):
    return ScriptedService(RuleBook(rules_of(then)), clock=ManualClock(), **settings)


def said(script):
    """Status, and the message of the error."""
    return script[0].status, json.loads(joined(script))["error"]["message"]


def text_of(script):
    return json.loads(joined(script))["content"][0]["text"]


def test_a_rule_s_answer_is_played():
    assert text_of(a_service("Hi there").script(a_request())) == "Hi there"


@pytest.mark.parametrize("then", [[], ["once"]])
def test_what_no_rule_answers_is_a_loud_error_that_no_sdk_sends_again(then):
    service = a_service(then)
    scripts = [service.script(a_request()) for _ in range(2)]

    assert scripts[-1][0].status == 400
    assert ("x-should-retry", "false") in scripts[-1][0].fields


def test_no_match_and_exhausted_are_told_apart():
    none, spent = a_service([]), a_service(["once"])
    spent.script(a_request("openai.chat"))

    scripts = [service.script(a_request("openai.chat")) for service in (none, spent)]

    codes = [json.loads(joined(script))["error"]["code"] for script in scripts]
    assert codes == ["no_rule", "rules_exhausted"]


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(ErrorAnswer(529), id="an-error"),
        pytest.param(ErrorAnswer(429, headers={"retry-after": "60"}), id="with-seconds"),
        pytest.param(lambda received: ErrorAnswer(500), id="of-a-function"),
        pytest.param([Head(503), End()], id="a-script"),
    ],
)
def test_a_refusal_can_be_told_to_be_followed_soon(then):
    head = a_service(then, retry_after_ms=5).script(a_request())[0]

    assert ("retry-after-ms", "5") in head.fields


@pytest.mark.parametrize(
    "then",
    [
        pytest.param("Hi", id="an-answer"),
        pytest.param(ErrorAnswer(529, headers={"Retry-After-MS": "70"}), id="one-of-its-own"),
    ],
)
def test_nothing_else_is_told_to_be_followed_soon(then):
    head = a_service(then, retry_after_ms=5).script(a_request())[0]

    assert ("retry-after-ms", "5") not in head.fields


def test_a_function_is_asked_with_the_request():
    service = a_service(lambda received: f"You said {received.last_user_text}")

    assert text_of(service.script(a_request(user="ho"))) == "You said ho"


def test_a_function_may_be_asynchronous():
    async def later(received):
        await asyncio.sleep(0)
        return Answer("later")

    async def played():
        return await a_service(later).script(a_request())

    assert text_of(asyncio.run(played())) == "later"


@pytest.mark.parametrize("result", [5, None, [Body(b"x")]])
def test_a_function_that_returns_what_cannot_be_played_is_a_reply_too(result):
    observer = Broken()
    service = a_service(lambda received: result, observers=[observer])

    status, message = said(service.script(a_request()))

    assert (status, len(observer.errors)) == (500, 1)
    assert message.startswith("a rule failed: ")


def test_a_function_that_raises_is_a_reply_too():
    def function(received):
        raise KeyError("oops")

    assert said(a_service(function).script(a_request())) == (500, "a rule failed: KeyError: 'oops'")


def test_an_asynchronous_function_that_raises_is_a_reply_too():
    async def function(received):
        raise KeyError("oops")

    async def played():
        return await a_service(function).script(a_request())

    assert said(asyncio.run(played()))[0] == 500


def test_a_function_that_returns_itself_is_given_up():
    def function(received):
        return function

    assert said(a_service(function).script(a_request()))[0] == 500


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(Answer("Hi") | Cut(), id="bar"),
        pytest.param(Answer("Hi", fault=Cut()), id="argument"),
        pytest.param(Cut(), id="alone"),
        pytest.param(lambda received: Answer("Hi") | Cut(), id="from-a-function"),
    ],
)
def test_a_fault_breaks_a_stream_event_by_event(then):
    script = a_service(then).script(a_request(stream=True))

    assert [type(op) for op in script] == [Head, Body, Body, Fin]
    assert bodies(script)[1].startswith(b"event: ping")


def test_faults_are_applied_from_the_inside():
    class Mark:
        def __init__(self, mark):
            self.mark = mark

        def apply(self, script, received):
            return [*script, Body(self.mark)]

    script = a_service(Answer("Hi") | Mark(b"1") | Mark(b"2")).script(a_request())

    assert bodies(script)[1:] == [b"1", b"2"]


def test_a_script_is_played_as_it_is():
    ops = [Head(200), Body(b"x"), End()]

    assert list(a_service(ops).script(Received("GET", "/anything"))) == ops


def test_an_answer_needs_an_endpoint_that_has_answers():
    status, message = said(a_service("Hi").script(Received("GET", "/v1/models")))

    assert (status, message[:14]) == (400, "GET /v1/models")


def test_a_call_without_a_body_is_refused():
    status, message = said(a_service("Hi").script(Received("POST", "/v1/messages")))

    assert (status, message) == (400, "the body (0 bytes) is no JSON object; send one")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param([("x-api-key", "right")], 200, id="anthropic"),
        pytest.param([("authorization", "Bearer right")], 200, id="bearer"),
        pytest.param([("x-api-key", "wrong")], 401, id="wrong"),
        pytest.param([("x-api-key", "sé")], 401, id="not-ascii"),
        pytest.param([], 401, id="none"),
    ],
)
def test_keys_are_asked_for_where_there_are_any(headers, status):
    service = a_service("Hi", api_keys=["other", "right"])

    assert service.script(a_request(headers=headers))[0].status == status


def test_a_provider_refuses_before_the_rules_are_asked():
    class Busy(Provider):
        def answer(self, received):
            return ErrorAnswer(529)

    service = a_service(["Hi"], providers=[Busy()])

    assert service.script(a_request())[0].status == 529
    assert service.rules.played(service.rules.rules[0]) == 0


def test_a_provider_s_headers_are_on_every_reply():
    class Limits(Provider):
        def headers(self, received):
            return [("x-ratelimit-remaining-requests", "7")]

    service = a_service(["Hi", ErrorAnswer(500)], providers=[Limits()])
    heads = [service.script(a_request())[0] for _ in range(2)]

    assert [dict(head.fields)["x-ratelimit-remaining-requests"] for head in heads] == ["7", "7"]


@pytest.mark.parametrize(
    ("own", "counts"),
    [
        pytest.param(None, (5, 7, 2), id="the-provider-s"),
        pytest.param(Usage(uncached=1, output=9), (1, 0, 9), id="the-answer-s-own"),
    ],
)
def test_a_provider_says_what_a_call_uses(own, counts):
    class Cache(Provider):
        def usage(self, received, answer):
            return Usage(uncached=5, cache_read=7)

    script = a_service(Answer("two words", usage=own), providers=[Cache()]).script(a_request())
    usage = json.loads(joined(script))["usage"]

    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == counts[:2]
    assert usage["output_tokens"] == counts[2]


def test_of_several_usages_the_last_one_counts():
    class Told(Provider):
        def __init__(self, tokens):
            self.tokens = tokens

        def usage(self, received, answer):
            return self.tokens and Usage(uncached=self.tokens)

    providers = [Told(1), Told(2), Told(None)]
    script = a_service(Answer("Hi"), providers=providers).script(a_request())

    assert json.loads(joined(script))["usage"]["input_tokens"] == 2


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("where", ["joined", "own", "server"])
def test_a_fault_leaves_an_answer_split(where, stream):
    answer = Answer("a b c", split=7, gap=0.5)
    settings = {"faults": [Whole()]} if where == "server" else {}
    then = {"joined": answer | Whole(), "own": replace(answer, fault=Whole()), "server": answer}

    script = a_service(then[where], **settings).script(a_request(stream=stream))

    assert {len(one) for one in bodies(script)[:-1]} == {7}
    assert script.count(Wait(0.5)) == len(bodies(script)) - 1


def test_a_fault_leaves_lines_that_end_in_crlf_split_inside():
    then = Answer("a b c", split="crlf") | Whole()

    script = a_service(then).script(a_request(stream=True))

    assert all(one.startswith(b"\n") and one.endswith(b"\r") for one in bodies(script)[1:-1])


class UnreadableError(Exception):
    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(SystemExit(3), id="exit"),
        pytest.param(pytest.fail.Exception("no"), id="pytest-fail"),
        pytest.param(asyncio.CancelledError(), id="cancelled"),
        pytest.param(ValueError("\ud800"), id="a-text-that-is-no-utf-8"),
        pytest.param(UnreadableError(), id="no-text"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_function_raises_the_client_is_told(error, is_async):
    def fails(received):
        raise error

    async def fails_later(received):
        raise error

    async def script_of(service):
        script = service.script(a_request())
        return await script if is_async else script

    status, message = said(asyncio.run(script_of(a_service(fails_later if is_async else fails))))

    assert (status, message.split(":")[1].strip()) == (500, type(error).__name__)


def test_an_observer_that_fails_changes_nothing(caplog):
    class Failing(Observer):
        def request(self, received):
            raise KeyError("gone")

    last = Broken()
    service = a_service(observers=[Failing(), last])

    assert text_of(service.script(received_by(service, b'{"model": "m"}'))) == "Hi"
    assert "Failing.request failed" in caplog.text


def received_by(service, body=b"{}", headers=()):
    connection = service.opened(is_tls=False)
    return service.receive(connection, "POST", "/v1/messages", headers, body)


def test_attempts_of_the_same_call_are_counted():
    service = a_service()

    attempts = [received_by(service, body).attempt for body in (b"{}", b"{}", b"[]", b"{}")]

    assert attempts == [1, 2, 1, 3]


def test_a_client_that_counts_its_retries_is_believed():
    service = a_service()

    attempts = [
        received_by(service, headers=[("x-stainless-retry-count", count)]).attempt
        for count in ("0", "0", "2", "many")
    ]

    assert attempts == [1, 1, 3, 4]


def test_connections_and_requests_are_numbered():
    service = a_service()

    received = [received_by(service) for _ in range(2)]

    assert [(one.connection, one.number) for one in received] == [(1, 1), (2, 2)]
    assert received[0].received_at == 1_700_000_000.0


def test_only_so_many_calls_are_remembered():
    service = a_service()

    for number in range(10_001):
        received_by(service, b"%d" % number)

    assert len(service._attempts) == 10_000
