"""Every example that needs nothing but this machine runs, and holds what it promises."""

from __future__ import annotations

from examples import through_a_proxy, under_any_sdk


def test_one_tunnel_carries_both_calls_and_a_wrong_password_is_refused(capsys):
    assert through_a_proxy.main() == 0

    said = capsys.readouterr().out
    assert said.count("provider: Hi there!") == 2
    assert "does not accept the user and password that it was given (407)" in said


def test_an_sdk_that_we_do_not_know_is_carried_and_sent_again(capsys):
    assert under_any_sdk.main() == 0

    said = capsys.readouterr().out
    assert said.count("provider: Hi there!") == 2
    assert "2 attempts" in said
