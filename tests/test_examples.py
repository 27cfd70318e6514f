"""Every example that needs nothing but this machine runs, and holds what it promises."""

from __future__ import annotations

from examples import through_a_proxy


def test_one_tunnel_carries_both_calls_and_a_wrong_password_is_refused(capsys):
    assert through_a_proxy.main() == 0

    said = capsys.readouterr().out
    assert said.count("provider: Hi there!") == 2
    assert "does not accept the user and password that it was given (407)" in said
