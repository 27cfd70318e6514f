"""What a request is made of."""

from __future__ import annotations

import pytest

from smartclient.tokens.tally import as_json, plain
from smartclient.wire.anthropic_types import Message
from tests.smartclient.tokens.samples import a_tally, of_tally


class Model:
    """As an SDK's objects are."""

    def model_dump(self):
        return {"role": "user"}


def test_what_is_no_text_counts_as_its_json():
    tally = a_tally()

    for value in ("text", {"a": [1, None]}, None, 7):
        tally.text(value)

    assert of_tally(tally) == ["text", '{"a":[1,null]}', "7"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(Message.of({"role": "assistant"}), {"role": "assistant"}, id="ours"),
        pytest.param(Model(), {"role": "user"}, id="an-sdks"),
        pytest.param({"a": 1}, {"a": 1}, id="mapping"),
        pytest.param(7, 7, id="neither"),
    ],
)
def test_an_object_becomes_a_mapping_where_it_can(value, expected):
    assert plain(value) == expected


def test_objects_inside_become_mappings_too():
    assert as_json({"a": Model(), (1, 2): 3, "b": object}) == (
        '{"a":{"role":"user"},"b":"<class \'object\'>"}'
    )


def test_what_json_cannot_hold_is_no_error():
    circle: list = []
    circle.append(circle)

    assert as_json(circle) == "<class 'list'>"
    assert as_json(10**5_000) == "<class 'int'>"


@pytest.mark.parametrize("to_dict", [7, property(lambda self: 7), lambda self: 1 / 0])
def test_an_object_that_becomes_no_mapping_stays_what_it_is(to_dict):
    value = type("Stubborn", (), {"to_dict": to_dict})()

    assert plain(value) is value


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        pytest.param((), "text", id="text"),
        pytest.param(("has_tools",), "tools", id="tools"),
        pytest.param(("has_tools", "has_images"), "images", id="images"),
        pytest.param(("has_tools", "has_images", "has_files"), "files", id="files"),
    ],
)
def test_the_part_that_is_hardest_to_count_is_the_kind(flags, kind):
    tally = a_tally()

    for flag in flags:
        setattr(tally, flag, True)

    assert tally.kind == kind
