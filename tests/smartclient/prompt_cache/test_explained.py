"""A miss in a sentence."""

from __future__ import annotations

import pytest

from smartclient.prompt_cache import MISS_KINDS
from smartclient.prompt_cache.explained import explained


@pytest.mark.parametrize("kind", MISS_KINDS)
def test_every_class_can_be_told_without_facts(kind):
    told = explained(kind, {}, None)

    assert told
    assert "{" not in told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(59.4, "59 s"), (119, "119 s"), (150, "2.5 min"), (3600, "60 min"), (9000, "2.5 h")],
)
def test_times_are_told_as_people_do(seconds, told):
    assert f"last used {told} ago" in explained("ttl_expired", {"gap": seconds, "ttl": 1}, None)
