"""Which block two prompts part at, and where that is in the payload."""

from __future__ import annotations

import pytest

from smartclient.prompt_cache import Block, Walk
from smartclient.prompt_cache.divergence import divergence
from tests.smartclient.prompt_cache.pairs import a_request, changed, chat_request, walked

REQUEST = a_request()


def parted(change, request=REQUEST, **options):
    return divergence(walked(request), walked(changed(request, change)), **options)


def test_all_that_is_shared_comes_before_the_block():
    found = parted(lambda r: r.update(system="Other."))

    tools = walked(REQUEST).blocks[3].end
    assert (found.block, found.tier, found.shared_bytes) == (4, "system", tools)


def test_what_could_be_shared_ends_with_the_shorter_prompt():
    found = parted(lambda r: r.update(system="Other."))

    assert (
        found.end_bytes
        == walked(changed(REQUEST, lambda r: r.update(system="Other."))).blocks[-1].end
    )


def test_what_could_be_shared_ends_with_the_entry():
    found = parted(lambda r: r["tools"].reverse(), entry=4)

    assert found.end_bytes == walked(REQUEST).blocks[4].end


def test_a_parameter_takes_its_tier_and_what_follows():
    found = parted(lambda r: r.update(tool_choice={"type": "any"}))

    assert (found.block, found.shared_bytes) == (5, walked(REQUEST).blocks[4].end)


def test_several_parameters_are_all_named():
    found = parted(lambda r: r.update(tool_choice={"type": "any"}, thinking={"type": "enabled"}))

    assert found.parameters == ("tool_choice", "thinking")


def test_the_path_of_a_parameter_leads_to_what_changed():
    request = a_request(thinking={"type": "enabled", "budget_tokens": 1024})

    found = parted(lambda r: r["thinking"].update(budget_tokens=2048), request)

    assert found.difference.steps == ("thinking", "budget_tokens")


def test_another_endpoint_is_another_cache():
    found = divergence(walked(REQUEST), walked(chat_request()))

    assert found.parameters[0] == "endpoint"


@pytest.mark.parametrize(
    ("change", "kind", "steps"),
    [
        pytest.param(
            lambda r: r["messages"].insert(0, {"role": "user", "content": "Hi."}),
            "added",
            ("messages", 0, "content"),
            id="message-before",
        ),
        pytest.param(
            lambda r: r["messages"].pop(0), "removed", ("messages", 0, "content"), id="cut-off"
        ),
        pytest.param(
            lambda r: r["messages"].reverse(), "reorder", ("messages", 0, "content"), id="reversed"
        ),
        pytest.param(
            lambda r: r["messages"][1]["content"].insert(0, {"type": "text", "text": "Hm."}),
            "added",
            ("messages", 1, "content", 0),
            id="part-before",
        ),
        pytest.param(lambda r: r.pop("system"), "removed", ("system",), id="no-system"),
        pytest.param(
            lambda r: r.update(tools=[{"name": "a"}, *r["tools"][1:]]),
            "edit",
            ("tools", 0, "name"),
            id="renamed-and-changed",
        ),
        pytest.param(
            lambda r: r["tools"].insert(0, {**r["tools"].pop(), "description": "New."}),
            "reorder",
            ("tools", 0),
            id="moved-and-changed",
        ),
    ],
)
def test_what_became_of_the_blocks_is_named(change, kind, steps):
    found = parted(change)

    assert (found.difference.kind, found.difference.steps) == (kind, steps)


@pytest.mark.parametrize(
    ("message", "change", "steps"),
    [
        pytest.param(
            {"role": "tool", "tool_call_id": "a", "content": "x"},
            {"tool_call_id": "b"},
            ("messages", 4, "tool_call_id"),
            id="field-of-the-message",
        ),
        pytest.param(
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function"}]},
            {"tool_calls": [{"id": "d", "type": "function"}]},
            ("messages", 4, "tool_calls", 0, "id"),
            id="call-of-a-tool",
        ),
        pytest.param(
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"content": [{"type": "text", "text": "b"}]},
            ("messages", 4, "content", 0, "text"),
            id="part",
        ),
        pytest.param(
            {"role": "user", "content": ["a"]},
            {"content": ["b"]},
            ("messages", 4, "content", 0),
            id="no-object",
        ),
        pytest.param(
            {"role": "user", "content": "a"},
            {"content": "b"},
            ("messages", 4, "content"),
            id="text",
        ),
    ],
)
def test_the_path_is_that_of_the_payload(message, change, steps):
    request = chat_request()
    request["messages"] = [*request["messages"], message]

    found = parted(lambda r: r["messages"][-1].update(change), request)

    assert found.difference.steps == steps


def of_blocks(*blocks):
    return Walk(endpoint="openai.chat", model="m", blocks=blocks, params={})


@pytest.mark.parametrize(
    ("tier", "path", "steps"),
    [
        ("messages", ("messages", 3, "content", 0), ("messages", 3)),
        ("system", ("instructions",), ("instructions",)),
    ],
)
def test_a_digest_that_differs_over_the_same_bytes_is_of_what_is_around_them(tier, path, steps):
    one, other = (Block(path, tier, b"{}", digest, 2, 0) for digest in (b"1", b"2"))

    found = divergence(of_blocks(one), of_blocks(other))

    assert (found.difference.kind, found.difference.steps) == ("edit", steps)


@pytest.mark.parametrize("data", [b"", b"7", b"[" * 5_000, b"\xff", b'{"name":3}'])
def test_a_tool_that_cannot_be_read_is_a_block_like_others(data):
    one = Block(("tools", 0), "tools", b'{"name":"a"}', b"1", 12, 0)
    other = Block(("tools", 0), "tools", data, b"2", len(data), 0)

    found = divergence(of_blocks(one), of_blocks(other))

    assert (found.difference.steps[:2], found.tier) == (("tools", 0), "tools")


def test_what_is_no_object_is_found_under_an_empty_name_too():
    path = ("messages", 0, "content", 1)
    one, other = (
        Block(path, "messages", b'{"role":"user","":%b}' % value, value, 9, 0)
        for value in (b"1", b"2")
    )

    assert divergence(of_blocks(one), of_blocks(other)).difference.steps == path
