"""Where a block is, as people read it."""

from __future__ import annotations

import pytest

from smartclient.prompt_cache.blocks import path_text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("tools", 3), "tools[3]"),
        (("messages", 4, "content", 1), "messages[4].content[1]"),
        (("instructions",), "instructions"),
        ((), ""),
    ],
)
def test_a_path_reads_like_code(path, text):
    assert path_text(path) == text
