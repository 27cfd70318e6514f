"""The verdict on clients that take faults as they should: nothing is found."""

from __future__ import annotations

import pytest

from server_reference.scripted import Answer, fault
from tests.server_reference.scripted.raw_client import CHAT, chat
from tests.server_reference.scripted.test_verdict import MESSAGES, SLOW_END, close_at, judged

ANSWER = Answer("Hello big world")
STREAM = chat(stream=True, max_tokens=9)


def report(text, target=CHAT):
    return lambda it: it.report(STREAM, target, text=text)


def ask_twice(target=CHAT):
    def act(it):
        with it.server.call():
            it.ask(0.5, body=STREAM, target=target)

    return act


@pytest.mark.parametrize(
    "name",
    ["no_done", "done_with_spaces", "two_spaces_after_colon", "gzip_flushed", "gzip_members"],
)
def test_a_whole_answer_in_an_odd_form_is_not_truncated(name):
    assert judged(ANSWER | fault(name), report("Hello big world")).is_clean


def test_bytes_that_are_no_utf8_are_replaced_in_the_text_that_counts():
    broken = ANSWER | fault("invalid_utf8")

    assert judged(broken, report("\ufffd(\ufffdHello big world")).is_clean
    assert judged(broken, report("Hello big world")).names == ["answer_differs"]


@pytest.mark.parametrize("target", [CHAT, MESSAGES])
@pytest.mark.parametrize("name", ["error_event", "empty_stream", "overloaded_as_api_error"])
def test_what_came_in_good_order_without_an_answer_may_be_asked_for_again(name, target):
    assert judged([ANSWER | fault(name), ANSWER], ask_twice(target)).is_clean


def test_an_answer_that_came_whole_is_not_asked_for_again():
    assert judged(ANSWER | fault("no_done"), ask_twice()).names == ["duplicate_after_success"]


def test_half_of_the_first_event_with_text_is_no_content_yet():
    cut = ANSWER | fault("fin_mid_chunk", events=2)

    assert judged([cut, ANSWER], ask_twice(MESSAGES)).is_clean


def test_a_line_longer_than_the_journals_cap_is_content():
    text = "a" * 2**17

    assert judged(Answer([text, "b"]), report(text + "b")).is_clean


def test_who_refuses_a_reply_may_close_after_its_last_event():
    def act(it, **outcome):
        with it.server.call() as call:
            close_at(b"[DONE]")(it)
            call.outcome(**outcome)

    assert judged(SLOW_END, lambda it: act(it, error=ValueError("no"))).is_clean
    assert judged(SLOW_END, lambda it: act(it, text="Hello")).names == ["stream_not_drained"]
