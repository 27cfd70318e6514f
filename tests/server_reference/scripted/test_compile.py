from __future__ import annotations

import dataclasses
import json

import pytest

from server_reference.scripted.answers import Answer, ErrorAnswer, Usage
from server_reference.scripted.compile import Compiler, NoFormatError, error_reply, json_reply
from server_reference.scripted.ops import Body, End, Head, Wait
from server_reference.scripted.request import Received
from tests.server_reference.scripted.received import PATHS, a_request, bodies, joined

every_api = pytest.mark.parametrize("api", PATHS)


@every_api
def test_a_stream_without_timing_is_one_write(api):
    head, body, end = Compiler().answer(Answer("Hi there"), a_request(api, stream=True))

    assert (head.status, head.framing, type(body), end) == (200, "chunked", Body, End())


@every_api
def test_ways_to_write_a_stream_say_the_same(api):
    request, compiler = a_request(api, stream=True), Compiler()
    at_once = joined(compiler.answer(Answer("Hé there"), request))

    split = [compiler.answer(Answer("Hé there", split=s), request) for s in ("event", "byte", 7)]
    by_event = compiler.answer(Answer("Hé there"), request, event_by_event=True)

    assert [joined(script) for script in [*split, by_event]] == [at_once] * 4
    assert all(data.endswith(b"\n\n") for data in bodies(by_event))


@every_api
@pytest.mark.parametrize("stream", [False, True])
def test_each_reply_has_an_id_of_its_own(api, stream):
    compiler, answer = Compiler(), Answer("Hi")

    first, second = (
        joined(compiler.answer(answer, a_request(api, stream=stream, number=n))) for n in (1, 2)
    )

    assert first != second
    assert first.replace(b"0000001", b"0000002") == second


def test_a_reply_says_when_it_was_made():
    compiler, answer = Compiler(), Answer("Hi")

    made = [
        json.loads(joined(compiler.answer(answer, a_request("openai.chat", at=at))))["created"]
        for at in (1_700_000_000.9, 12.0, 0.0)
    ]

    assert made == [1_700_000_000, 12, 0]


@every_api
def test_a_whole_reply_has_its_length(api):
    head, body, _ = Compiler().answer(Answer("Hé"), a_request(api, at=12.0))

    assert (head.framing, head.length) == ("length", len(body.data))


def test_the_first_token_waits_and_a_whole_reply_waits_for_all():
    answer = Answer("one two three", ttft=1.0, itl=0.5)

    stream = Compiler().answer(answer, a_request(stream=True))
    whole = Compiler().answer(answer, a_request())

    assert [op.seconds for op in stream if isinstance(op, Wait)] == [1.0, 0.5, 0.5]
    assert [op.seconds for op in whole if isinstance(op, Wait)] == [2.0]


def test_usage_is_estimated_from_the_lengths():
    request = a_request()
    usage = json.loads(joined(Compiler().answer(Answer("one two three"), request)))["usage"]

    assert (usage["input_tokens"], usage["output_tokens"]) == (len(request.body) // 4, 3)


def test_usage_that_differs_is_never_an_earlier_reply_s():
    compiler, answer, request = Compiler(), Answer("Hi"), a_request()

    counts = [
        json.loads(joined(compiler.answer(answer, request, usage=Usage(uncached=n))))["usage"]
        for n in (5, 6)
    ]

    assert [usage["input_tokens"] for usage in counts] == [5, 6]


def test_filling_the_cache_alone_gives_no_content():
    message = json.loads(joined(Compiler().answer(Answer("Hi"), a_request(max_tokens=0))))

    assert (message["content"], message["stop_reason"]) == ([], "max_tokens")
    assert message["usage"]["output_tokens"] == 0


def test_an_answer_that_fails_is_an_error_when_it_is_whole():
    script = Compiler().answer(Answer("Hi", error=ErrorAnswer(529)), a_request())

    assert script[0].status == 529


def test_an_error_may_wait_and_bring_headers():
    error = ErrorAnswer(429, headers={"retry-after": "7"}, ttft=0.5)

    wait, head, *_ = error_reply(error, a_request())

    assert wait == Wait(0.5)
    assert (head.status, dict(head.fields)["retry-after"]) == (429, "7")


def test_an_error_s_body_may_be_anything():
    assert joined(error_reply(ErrorAnswer(502, body=b"<html>"), a_request())) == b"<html>"


def test_an_answer_needs_an_endpoint_that_has_answers():
    with pytest.raises(NoFormatError, match=r"GET /v1/models is no endpoint.*json_reply"):
        Compiler().answer(Answer("Hi"), Received("GET", "/v1/models"))


def test_any_endpoint_can_be_sent_json():
    head, body, _ = json_reply({"data": []}, status=201, headers=[("x", "y")])

    assert head == Head(201, (("content-type", "application/json"), ("x", "y")), None, "length", 11)
    assert body.data == b'{"data":[]}'


def test_jitter_is_told_by_the_seed_and_the_number_of_the_request():
    def waited(seed, number):
        received = dataclasses.replace(a_request(stream=True), number=number)
        script = Compiler(seed=seed).answer(Answer("a b c", itl=1, jitter=0.5), received)
        return tuple(op.seconds for op in script if isinstance(op, Wait))

    assert waited(1, 1) == waited(1, 1)
    assert len({waited(1, 1), waited(1, 2), waited(2, 1)}) == 3


def test_only_so_many_answers_are_kept():
    compiler = Compiler()

    for number in range(300):
        compiler.answer(Answer(f"answer {number}"), a_request())

    assert len(compiler._kept) == 256
