from __future__ import annotations

import json

import pytest

from server_reference.scripted.answers import Answer, ErrorAnswer, ToolCall
from server_reference.scripted.faults import fault
from server_reference.scripted.ops import (
    Body,
    End,
    GoAway,
    Head,
    Pause,
    Raw,
    ResetStream,
    Settings,
    Wait,
)
from server_reference.scripted.then import check_script, item_from_json, steps
from tests.server_reference.scripted.received import joined

SCRIPT = [Head(200), Body(b"x"), End()]


def function(received):
    return "x"


@pytest.mark.parametrize(
    ("then", "items", "is_sequence"),
    [
        pytest.param("Hi", (Answer("Hi"),), False, id="text"),
        pytest.param(Answer("Hi"), (Answer("Hi"),), False, id="answer"),
        pytest.param(SCRIPT, (tuple(SCRIPT),), False, id="script"),
        pytest.param(function, (function,), False, id="function"),
        pytest.param({"text": "Hi"}, (Answer("Hi"),), False, id="mapping"),
        pytest.param(["Hi", ErrorAnswer(500)], (Answer("Hi"), ErrorAnswer(500)), True, id="list"),
        pytest.param([SCRIPT, "Hi"], (tuple(SCRIPT), Answer("Hi")), True, id="script-in-a-list"),
    ],
)
def test_then_takes_one_item_or_a_sequence(then, items, is_sequence):
    assert steps(then) == (items, is_sequence)


@pytest.mark.parametrize("then", [5, None, [5], b"raw"])
def test_what_cannot_be_played_is_refused(then):
    with pytest.raises(TypeError, match="cannot play"):
        steps(then)


def test_an_empty_list_plays_nothing():
    with pytest.raises(ValueError, match="then is empty"):
        steps([])


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            [Wait(-1)],
            "operation 1 of the script, Wait: seconds must be at least 0 s and finite, not -1",
        ),
        ([Body(b"x")], "operation 1 of the script, Body: a Head must stand before it"),
        ([Head(20)], "status must be 100 to 999, not 20"),
        ([Head(200, length=-1)], "length must be at least 0, not -1"),
        ([Head(200), Body("x")], "operation 2 of the script, Body: data must be bytes, not str"),
        ([Head(100), Body(b"x")], "a Head must stand before it"),
        ([ResetStream(-1)], "ResetStream: code must be 0 to 4294967295, not -1"),
        ([GoAway(code=2**32)], "GoAway: code must be 0 to"),
        ([Settings((("MAX_CONCURENT_STREAMS", 1),))], "did you mean 'MAX_CONCURRENT_STREAMS'"),
        ([Settings((("ENABLE_PUSH", -1),))], "setting ENABLE_PUSH must be 0 to"),
        ([Settings({"ENABLE_PUSH": 1})], "values must be pairs of a name and a number"),
    ],
)
def test_a_script_that_cannot_be_played_names_the_operation(script, said):
    with pytest.raises(ValueError, match=said):
        check_script(script)


def test_a_script_may_begin_with_anything_raw():
    check_script([Raw(b"\x00"), Wait(0), Pause()])


@pytest.mark.parametrize(
    ("given", "item"),
    [
        ("Hi", Answer("Hi")),
        ({"text": "Hi", "split": "byte"}, Answer("Hi", split="byte")),
        ({"tool_calls": [{"name": "f"}]}, Answer(tool_calls=[ToolCall("f")])),
        ({"status": 429, "headers": {"a": "b"}}, ErrorAnswer(429, headers={"a": "b"})),
        ({"text": "x", "error": {"status": 500}}, Answer("x", error=ErrorAnswer(500))),
    ],
)
def test_json_means_answers_and_errors(given, item):
    assert item_from_json(given) == item


def test_json_can_be_a_reply_for_any_endpoint():
    script = item_from_json({"json": {"data": []}, "status": 201, "headers": {"x": "y"}})

    assert (script[0].status, json.loads(joined(script))) == (201, {"data": []})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"txt": "Hi"}, "did you mean 'text'"),
        ({"status": 500, "mesage": "x"}, "did you mean 'message'"),
        ({"json": {}, "headrs": {}}, "no field of a reply; did you mean 'headers'"),
        ({"error": 529}, 'error must be an object such as {"status": 529}, not int'),
        ({"error": {"status": "x"}}, "error: status must be int, not str"),
        ({"error": {"stats": 529}}, "no field of an error; did you mean 'status'"),
        (5, "a string or an object, not int"),
        ({"json": {}, "headers": ["x"]}, "headers must be an object of texts, not list"),
    ],
)
def test_json_with_an_unknown_field_names_the_nearest(given, said):
    with pytest.raises(ValueError, match=said):
        item_from_json(given)


@pytest.mark.parametrize("given", ["comments_between", {"name": "comments_between"}])
def test_json_names_a_fault(given):
    item = item_from_json({"text": "Hi", "fault": given})
    alone = item_from_json({"fault": given})

    assert item.fault == alone == fault("comments_between")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("comments_betwen", "comments_between"),
        ({"events": 3}, "a name, or an object with name"),
        (5, "a name, or an object with name"),
    ],
)
def test_json_with_an_unknown_fault_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        item_from_json({"text": "Hi", "fault": given})
