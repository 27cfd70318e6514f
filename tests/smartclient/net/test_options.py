from __future__ import annotations

import ssl

import pytest

from smartclient.net import NetOptions


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        pytest.param({"max_connections": 0}, "at least 1, not 0", id="no-connections"),
        pytest.param({"idle_expiry": -1}, "at least 0 s, not -1; use None", id="negative-expiry"),
        pytest.param({"keepalive": 0.5}, "at least 1 s, not 0.5; use None", id="short-keepalive"),
    ],
)
def test_setting_out_of_range_is_refused_where_it_is_given(setting, words):
    with pytest.raises(ValueError, match=words):
        NetOptions(**setting)


@pytest.mark.parametrize("setting", [{"ca_file": "ca.pem"}, {"verify": False}])
def test_own_context_excludes_settings_it_would_override(setting):
    with pytest.raises(ValueError, match="ssl_context already says whom to trust"):
        NetOptions(ssl_context=ssl.create_default_context(), **setting)


def test_no_limits_in_time_are_allowed():
    assert NetOptions(idle_expiry=None, keepalive=None).max_connections == 1000
