from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from server_reference.scripted import Answer, ErrorAnswer, ToolCall, Usage, fault, faults_at, rule
from server_reference.scripted.config import ScriptedConfig
from server_reference.scripted.given import check_call, named
from server_reference.scripted.ops import End, GoAway, Head, ResetStream, Settings, Wait
from server_reference.scripted.rules import rule_from_json


async def later(received):
    return True


WRONG = {
    "a text that is none": (lambda: Answer(5), "text must be str or list or tuple, not int"),
    "a piece that is none": (lambda: Answer(["a", 5]), "text must be str, not int"),
    "half a character": (lambda: Answer("ab\ud800"), "text holds half a character"),
    "half a thought": (lambda: Answer(thinking=["\udc00"]), "thinking holds half a character"),
    "a field nearly known": (lambda: Answer(tex="x"), "did you mean 'text'?"),
    "a field of an error": (lambda: ErrorAnswer(stat=500), "did you mean 'status'?"),
    "a field of a tool call": (lambda: ToolCall("f", args={}), "'args' is no field of ToolCall"),
    "a tool call's name": (lambda: ToolCall(5), "tool_calls: name must be str, not int"),
    "a tool call without one": (lambda: Answer(tool_calls=[{"id": "a"}]), "each needs a name"),
    "no tool call": (lambda: Answer(tool_calls=["get"]), "each must be ToolCall or Mapping"),
    "no tool calls": (lambda: Answer(tool_calls={"name": "f"}), "must be list or tuple, not dict"),
    "arguments that are no object": (lambda: ToolCall("f", [1]), "must be Mapping or str"),
    "arguments that are no JSON": (lambda: ToolCall("f", {"a": ...}), "arguments are no JSON"),
    "usage by a wrong type": (lambda: Answer(usage=5), "usage must be Usage or Mapping, not int"),
    "half a token": (lambda: Usage(output=1.5), "usage: output must be int, not float"),
    "tokens without a ttl": (lambda: Usage(cache_write=5), "cache_write must be Mapping, not int"),
    "a wait as text": (lambda: Answer(ttft="1"), "ttft must be int or float, not str"),
    "a wait as a bool": (lambda: Answer(itl=True), "itl must be int or float, not bool"),
    "a split as a bool": (lambda: Answer(split=True), "split must be"),
    "a split as a fraction": (lambda: Answer(split=1.5), "split must be"),
    "an offset as text": (lambda: Answer(split=["a"]), "split: each offset must be int, not str"),
    "headers as pairs": (lambda: Answer(headers=[("a", "b")]), "headers must be Mapping, not list"),
    "a header's number": (lambda: ErrorAnswer(429, headers={"retry-after": 7}), "must be str"),
    "two lines": (lambda: Answer(headers={"a": "b\r\nc: d"}), "headers['a'] must be one line"),
    "a header's name": (lambda: Answer(headers={"a b": "c"}), "'a b' is no name of a header"),
    "an error by name": (lambda: Answer(error="boom"), "error must be ErrorAnswer, not str"),
    "a fault by name": (lambda: Answer(fault="reset_after"), "such as fault('reset_after')"),
    "a fault joined by name": (lambda: Answer() | "reset_after", "such as fault('reset_after')"),
    "a status as text": (lambda: ErrorAnswer("500"), "status must be int, not str"),
    "a message that is none": (lambda: ErrorAnswer(message=5), "message must be str, not int"),
    "a body as text": (lambda: ErrorAnswer(body="x"), "body must be bytes or None, not str"),
    "a class": (lambda: rule(Answer), "a function of the request, not the class Answer"),
    "a function of nothing": (lambda: rule(lambda: "x"), "called with the request and nothing"),
    "a function of two": (lambda: rule(lambda a, b: "x"), "called with the request and nothing"),
    "a head's status": (lambda: rule([Head("200"), End()]), "Head: status must be int, not str"),
    "a head's fields": (lambda: rule([Head(200, {"a": "b"}), End()]), "Head: fields, pairs"),
    "a head's value": (lambda: rule([Head(200, (("a", 5),)), End()]), "both texts, not ('a', 5)"),
    "a framing": (lambda: rule([Head(framing="lenght"), End()]), "did you mean 'length'?"),
    "a wait in a script": (lambda: rule([Wait("1")]), "Wait: seconds must be int or float"),
    "a code": (lambda: rule([ResetStream("8")]), "ResetStream: code must be int, not str"),
    "a stream": (lambda: rule([GoAway(-1)]), "GoAway: last_stream_id must be 0 to"),
    "a setting's value": (lambda: rule([Settings((("ENABLE_PUSH", "1"),))]), "must be int"),
    "a setting that is no pair": (lambda: rule([Settings(("ab",))]), "settings: each must be"),
    "times as text": (lambda: rule("x", times="2"), "times must be int or None, not str"),
    "a name": (lambda: rule("x", name=5), "name must be str or None, not int"),
    "an api": (lambda: rule("x", api="openai.chatt"), "did you mean 'openai.chat'?"),
    "a fraction of a turn": (lambda: rule("x", turn=1.5), "turn must be int, not float"),
    "a header's value": (lambda: rule("x", header={"a": 5}), "header['a'] must be str, not int"),
    "a header's key": (lambda: rule("x", header={5: "a"}), "header: each name must be str"),
    "when it is none": (lambda: rule("x", when="x"), "when must be a function of the request"),
    "when it is later": (lambda: rule("x", when=later), "not an asynchronous one"),
    "rates as a list": (lambda: faults_at(["cut"]), "rates must be Mapping, not list"),
    "a rate's seed": (lambda: faults_at({}, seed="x"), "seed must be int, not str"),
    "json: headers": (lambda: rule_from_json({"then": {"json": {}, "headers": {"a": 5}}}), "str"),
    "json: an error": (lambda: rule_from_json({"then": {"error": {"stat": 5}}}), "'status'?"),
    "config: seed": (lambda: ScriptedConfig(seed="x"), "seed must be int, not str"),
    "config: tls": (lambda: ScriptedConfig(tls="yes"), "tls must be bool or Authority"),
    "config: http2": (lambda: ScriptedConfig(http2="no"), "http2 must be bool, not str"),
    "config: clock": (lambda: ScriptedConfig(clock=5), "clock must have a method now"),
    "config: keys": (lambda: ScriptedConfig(api_keys=["clé"]), "api_keys must be ASCII"),
    "config: a fault by name": (lambda: ScriptedConfig(faults=["cut"]), "faults: each must have"),
    "config: one fault": (lambda: ScriptedConfig(faults=fault("no_reply")), "faults, a list, must"),
    "config: an observer": (lambda: ScriptedConfig(observers=[5]), "observers: each must have"),
    "config: limits": (lambda: ScriptedConfig(rate_limits={}), "rate_limits must be Limits"),
    "config: a cache": (lambda: ScriptedConfig(prompt_cache=True), "prompt_cache must be Cache"),
    "config: greetings": (lambda: ScriptedConfig(greetings=[1]), "greetings must be Mapping"),
    "config: connection 0": (lambda: ScriptedConfig(greetings={0: ()}), "must be at least 1"),
}


@pytest.mark.parametrize(("define", "said"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_played_is_refused_where_it_is_given(define, said):
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        define()


def test_a_named_dataclass_takes_what_it_has():
    @named
    @dataclass(frozen=True)
    class Point:
        x: int
        y: int = 0

    assert Point(1, y=2) == Point(x=1, y=2)


@pytest.mark.parametrize("function", [lambda r: "x", lambda *a: "x", lambda r, n=1: "x", str.upper])
def test_a_function_that_can_be_called_with_a_request_is_taken(function):
    check_call("then", function)


def test_any_bytes_may_stand_in_the_header_of_a_script():
    assert rule([Head(200, (("a b", "c\udcff\r\n"),)), End()])
