"""Values keep their source, and are forgiving about what stands in it."""

from __future__ import annotations

import copy
import pickle

import msgspec
import pytest

from smartclient.wire.encode import encode
from smartclient.wire.value import StreamValue, Text, Value, canonical, decode, struct, with_sources


class Leaf(Value):
    name: str | None = None


class Counts(StreamValue, frozen=True):
    num: int | None = None
    inner: Counts | None = None
    items: list[Counts] | None = None
    word: Text = None


class Told(StreamValue, frozen=True):
    leaf: Leaf | None = None
    other: Leaf | None = None
    word: Text = None


class Tree(Value):
    _nested = {"leaves": Leaf, "leaf": Leaf, "counts": Counts}  # noqa: RUF012

    name: str | None = None
    leaves: tuple[Leaf, ...] = ()
    leaf: Leaf | None = None
    counts: Counts | None = None


SOURCE = (
    b'{ "name":"a\\u00e9", "leaves":[{"name": "x", "new":1.50},{"name":null}], "counts":{"num":3}}'
)


def test_fields_are_attributes():
    tree = Tree.from_json(SOURCE)

    assert tree.name == "aé"
    assert [leaf.name for leaf in tree.leaves] == ["x", None]
    assert tree.counts == Counts(num=3)


def test_a_value_and_each_part_of_it_keep_their_bytes():
    tree = Tree.from_json(SOURCE)

    assert tree.raw == SOURCE
    assert tree.leaves[0].raw == b'{"name": "x", "new":1.50}'
    assert tree.leaves[1].raw == b'{"name":null}'
    assert tree.leaves[1].raw is tree.leaves[1].raw  # found once


def test_what_is_sent_back_is_what_came():
    tree = Tree.from_json(SOURCE)

    body = encode({"messages": [{"role": "assistant", "content": tree.leaves}, tree]})

    assert body == (
        b'{"messages":[{"role":"assistant","content":'
        b'[{"name": "x", "new":1.50},{"name":null}]},' + SOURCE + b"]}"
    )


def test_a_value_inside_an_event_can_have_its_own_bytes():
    source = '{"word":"a", "other":null, "leaf": {"name": "x", "new":1.50}}'
    told = struct(Told, decode(source))
    assert told.leaf.raw == b'{"name":"x","new":1.5}'

    told = with_sources(told, source)

    assert told.leaf.raw == b'{"name": "x", "new":1.50}'
    assert (told.leaf.name, told.other, told.word) == ("x", None, "a")


def test_a_new_field_is_reachable_without_an_update_of_ours():
    leaf = Leaf.from_json(b'{"new": {"deep": [1]}}')

    assert leaf.new == {"deep": [1]}
    assert leaf.to_dict() == {"new": {"deep": [1]}}


def test_a_field_that_nobody_sent_and_nobody_knows_is_an_error():
    with pytest.raises(AttributeError, match="nothing"):
        _ = Leaf.from_json(b"{}").nothing


@pytest.mark.parametrize("name", ["raw", "to_dict", "of", "from_json", "_source", "__reduce_ex__"])
def test_no_field_hides_what_is_ours(name):
    source = encode({name: "theirs", "name": "x"})

    leaf = Leaf.from_json(source)

    assert leaf.raw == source
    assert leaf.to_dict() == {name: "theirs", "name": "x"}
    assert pickle.loads(pickle.dumps(leaf)) == leaf


@pytest.mark.parametrize(
    ("source", "leaf"),
    [
        pytest.param(b'{"leaf":null}', None, id="null"),
        pytest.param(b"{}", None, id="missing"),
        pytest.param(b'{"leaf":"text"}', "text", id="text-in-place-of-an-object"),
        pytest.param(b'{"leaf":[1,{}]}', [1, Leaf.of({})], id="list-in-place-of-an-object"),
    ],
)
def test_an_odd_shape_is_no_error(source, leaf):
    assert Tree.from_json(source).leaf == leaf


def test_a_null_list_is_the_default():
    assert Tree.from_json(b'{"leaves":null}').leaves == ()


def test_counts_of_an_unknown_shape_stay_plain():
    assert Tree.from_json(b'{"counts":{"inner":[1]}}').counts == {"inner": [1]}


def test_to_dict_is_the_callers_own():
    leaf = Leaf.from_json(b'{"new":[1]}')

    leaf.to_dict()["new"].append(2)

    assert leaf.new == [1]


def test_setting_a_field_says_why_it_cannot_be():
    leaf = Leaf.from_json(b'{"name":"x"}')

    with pytest.raises(AttributeError, match=r"Leaf\.name cannot be set.*to_dict"):
        leaf.name = "y"


def test_values_compare_by_content_not_by_spelling():
    assert Leaf.from_json(b'{"name": "x"}') == Leaf.of({"name": "x"})
    assert Leaf.of({"name": "x"}) != Leaf.of({"name": "y"})
    assert Leaf.of({}) != Tree.of({})


@pytest.mark.parametrize("again", [lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy])
def test_a_copy_has_the_same_bytes(again):
    tree = Tree.from_json(SOURCE)

    assert again(tree) == tree
    assert again(tree).leaves[0].raw == tree.leaves[0].raw


def test_a_repr_is_readable_and_bounded():
    assert repr(Leaf.of({"name": "x", "new": 1})) == "Leaf(name='x', new=1)"
    assert repr(Leaf.of({"name": "x" * 5000})).endswith("… (5,000 characters))")
    assert repr(Counts(num=3)) == "Counts(num=3)"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'"x"', b"<html>", b'{"a":', b'{"a":1}x', b"NaN"]
)
def test_what_is_no_json_object_is_a_decode_error(body):
    with pytest.raises(msgspec.DecodeError):
        Leaf.from_json(body)


def test_json_of_absurd_depth_is_a_decode_error():
    with pytest.raises(msgspec.DecodeError):
        Leaf.from_json(b'{"name":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def test_numbers_that_json_does_not_know_are_read():
    tree = Tree.from_json(b'{"logprob": -Infinity, "leaves": [{"name": "x"}, {}], "counts": {}}')

    assert tree.logprob == float("-inf")
    assert tree.leaves == [Leaf.of({"name": "x"}), Leaf.of({})]
    assert tree.counts == Counts()


def test_half_a_surrogate_pair_is_read_and_goes_back_as_it_came():
    tree = Tree.from_json(b'{"leaf":{"name":"\\ud83d"},"name":"\\ud83d"}')

    assert tree.name == "\ud83d"
    assert encode([tree]) == b'[{"leaf":{"name":"\\ud83d"},"name":"\\ud83d"}]'


def test_halves_of_a_pair_that_came_apart_are_joined():
    assert canonical({"text": "\ud83d" + "\ude00"}) == '{"text":"😀"}'.encode()
    assert canonical(["\ud83d"]) == '["\ufffd"]'.encode()


def test_decode_reports_where_json_breaks():
    with pytest.raises(msgspec.DecodeError, match="byte"):
        decode('{"a": tru}')


def test_a_part_of_an_event_tells_its_known_fields():
    counts = Counts(num=0, inner=Counts(word="x"), items=[Counts(num=2)])

    assert counts.to_dict() == {"num": 0, "inner": {"word": "x"}, "items": [{"num": 2}]}
    assert counts.raw == b'{"num":0,"inner":{"word":"x"},"items":[{"num":2}]}'
