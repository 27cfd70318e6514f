"""Any edit of any request is found where it is; large ones in little time."""

from __future__ import annotations

import copy
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smartclient.prompt_cache import drift
from tests.smartclient.prompt_cache.pairs import DATED, a_request, a_tool, changed, walked

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
requests = st.builds(
    lambda system, said, names: {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "system": system,
        "tools": [a_tool(name) for name in names],
        "messages": [{"role": "user", "content": [{"type": "text", "text": t}]} for t in said],
    },
    words,
    st.lists(words, min_size=1, max_size=6),
    st.lists(words, min_size=2, max_size=5, unique=True),
)


def texts_of(request):
    """Every text, as the object that holds it, its key and its path."""
    yield request, "system", ("system",)
    for i, tool in enumerate(request["tools"]):
        yield tool, "description", ("tools", i, "description")
    for i, message in enumerate(request["messages"]):
        yield message["content"][0], "text", ("messages", i, "content", 0, "text")


@given(requests, st.data())
def test_any_edit_of_a_text_is_found_at_its_path_and_character(request_, data):
    after = copy.deepcopy(request_)
    holder, key, path = data.draw(st.sampled_from(list(texts_of(after))))
    old = holder[key]
    at = data.draw(st.integers(0, len(old)))
    new = old[:at] + data.draw(words) + old[at + data.draw(st.integers(0, 3)) :]
    assume(new != old)
    holder[key] = new

    found = drift(walked(request_), walked(after))

    shared = next((i for i in range(min(len(old), len(new))) if old[i] != new[i]), None)
    if found.kind not in ("added", "removed", "reorder"):  # a message may equal another one
        assert found.steps == path
        assert found.offset == (min(len(old), len(new)) if shared is None else shared)
    assert path[:2] == found.steps[:2]


@given(requests, st.lists(words, max_size=4))
def test_whatever_is_appended_is_no_drift(request_, said):
    after = copy.deepcopy(request_)
    after["messages"] += [{"role": "assistant", "content": text} for text in said]

    assert drift(walked(request_), walked(after)) is None


@given(requests, st.randoms(use_true_random=False))
def test_any_other_order_of_tools_is_a_reorder(request_, random):
    after = copy.deepcopy(request_)
    random.shuffle(after["tools"])
    assume(after["tools"] != request_["tools"])

    found = drift(walked(request_), walked(after))

    first = next(i for i, t in enumerate(after["tools"]) if t != request_["tools"][i])
    assert (found.kind, found.path) == ("reorder", f"tools[{first}]")
    assert 1 <= found.count < len(after["tools"])


def test_ten_thousand_blocks_are_searched_by_digest():
    texts = [{"type": "text", "text": f"line {i}"} for i in range(10_000)]
    before = a_request(messages=[{"role": "user", "content": texts}])
    after = changed(before, lambda r: r["messages"][0]["content"][9_000].update(text="other"))

    found = drift(walked(before), walked(after))

    assert found.path == "messages[0].content[9000].text@0"


@pytest.mark.parametrize("edit", ["01Z", "kind", "\n"])
def test_a_megabyte_costs_milliseconds(edit):
    text = "All work and no play.\n" * 48_000 + DATED
    before = walked(a_request(system=text))
    after = walked(a_request(system=text.replace(edit, "  02Z")))

    took = []
    for _ in range(5):
        start = time.perf_counter()
        drift(before, after)
        took.append(time.perf_counter() - start)

    assert min(took) < 0.05  # 5 ms on an idle machine
