from __future__ import annotations

from server_reference.gateway.metering import Meter, Usage


def test_tokens_add_up_by_tenant():
    meter = Meter()

    meter.add("a", input_tokens=10, cache_read=4, output_tokens=2)
    meter.add("a", input_tokens=5, cache_read=0, output_tokens=1)
    meter.add("b", input_tokens=1, cache_read=0, output_tokens=0)

    assert meter.usage() == {
        "a": Usage(requests=2, uncached=11, cache_read=4, output=3),
        "b": Usage(requests=1, uncached=1, cache_read=0, output=0),
    }
