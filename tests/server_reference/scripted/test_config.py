from __future__ import annotations

import pytest

from server_reference.scripted.config import ScriptedConfig
from server_reference.scripted.ops import Body, Head, Raw, Reset


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"prot": 1}, TypeError, "did you mean 'port'"),
        ({"port": 70_000}, ValueError, "port must be 0 to 65535"),
        ({"api_keys": "key"}, TypeError, "a list of keys, not one string"),
        ({"api_keys": [""]}, ValueError, "not empty"),
        ({"max_body_bytes": -1}, ValueError, "at least 0, not -1"),
        ({"retry_after_ms": 0}, ValueError, "at least 1, not 0: SDKs take 0 for absent"),
        ({"http2_settings": {"max_streams": 1}}, ValueError, "no setting of HTTP/2"),
        ({"greetings": {1: [Head(200), Body(b"x")]}}, ValueError, "Head needs a request"),
    ],
)
def test_a_wrong_option_is_named(given, kind, said):
    with pytest.raises(kind, match=said):
        ScriptedConfig.of(given)


def test_a_greeting_is_made_of_bytes_and_ways_to_close():
    ScriptedConfig(greetings={1: [Raw(b"SSH-2.0\r\n"), Reset()]})
