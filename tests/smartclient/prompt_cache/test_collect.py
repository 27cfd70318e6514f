"""What is taken over from an earlier walk, and from where on nothing is."""

from __future__ import annotations

from smartclient.prompt_cache.blocks import Walk
from smartclient.prompt_cache.collect import Collector, as_object, encode
from smartclient.wire.value import Value


def collected(*units: tuple[bytes, ...], before: Walk | None = None) -> Collector:
    collector = Collector([] if before is None else [before])
    for number, unit in enumerate(units):
        if not collector.take_over((unit,)):
            for data in unit:
                collector.add(("messages", number), "messages", data, True)
            collector.close(encode(unit))
    return collector


def walked(*units: tuple[bytes, ...]) -> Walk:
    found = collected(*units)
    return Walk(
        endpoint="e", model="m", blocks=tuple(found.blocks), params={}, units=tuple(found.units)
    )


def test_nothing_is_taken_over_after_a_unit_that_differs():
    before = walked((b"one",), (b"two",), (b"three",))

    found = collected((b"one",), (b"2",), (b"three",), before=before)

    taken = [block is old for block, old in zip(found.blocks, before.blocks, strict=True)]
    assert taken == [True, False, False]
    assert found.blocks[2].prefix != before.blocks[2].prefix


def test_a_unit_without_blocks_keeps_its_place():
    before = walked((b"one",), (), (b"three",))

    found = collected((b"one",), (), (b"three",), before=before)

    assert [block is old for block, old in zip(found.blocks, before.blocks, strict=True)] == [
        True
    ] * 2


def test_the_same_bytes_cut_otherwise_are_another_prompt():
    assert collected((b"ab", b"c")).blocks[-1].prefix != collected((b"a", b"bc")).blocks[-1].prefix


def test_the_same_block_in_another_tier_is_another_prompt():
    one, other = Collector(), Collector()
    one.add(("system",), "system", b"{}", True)
    other.add(("tools", 0), "tools", b"{}", True)

    assert one.blocks[0].prefix != other.blocks[0].prefix


def test_a_run_goes_on_in_the_next_unit():
    collector = Collector()
    for number in range(2):
        collector.add(("messages", number), "messages", b"{}", True, run="tool_result")
        collector.close(b"{}")

    assert [block.position for block in collector.blocks] == [0, 0]


def test_a_run_goes_on_after_what_was_taken_over():
    first = Collector()
    first.add((), "messages", b"{}", True, run="tool_result")
    first.close(b"{}")
    before = Walk(
        endpoint="e", model="m", blocks=tuple(first.blocks), params={}, units=tuple(first.units)
    )

    collector = Collector([before])
    collector.take_over([{}])
    collector.add((), "messages", b"{}", True, run="tool_result")

    assert [block.position for block in collector.blocks] == [0, 0]


def test_an_object_is_whatever_json_makes_one_of():
    assert as_object(Value.of({"a": 1})) == {"a": 1}
    assert as_object({"a": 1}) == {"a": 1}
    assert [as_object(one) for one in (None, "a", 1, [1], (1,), 1.5)] == [None] * 6


def test_what_was_compared_is_not_encoded_again():
    collector, other = Collector([walked((b"one",), (b"two",))]), (b"2",)

    taken = collector.take_over(((b"one",), other))

    assert taken == 1
    assert collector.source(other) is collector.source(other)
    assert collector.source(other) == encode(other)
    assert collector.source((b"three",)) == encode((b"three",))
