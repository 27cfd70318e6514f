"""What a client can be told, and what it refuses."""

from __future__ import annotations

import math
import socket
import ssl
import traceback
from pathlib import Path
from socket import SO_SNDBUF
from traceback import TracebackException

import pytest

import smartclient
from smartclient._call import Origin, Timeout
from smartclient._settings import Settings, environment, net_options, settings_of
from smartclient.net.options import Identity
from smartclient.net.proxies import Proxies
from smartclient.net.secret import SecretBytes

CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def test_options_are_put_into_the_settings():
    base = Settings(max_wait=5.0, keepalive=7.0)

    assert settings_of(base, {"keepalive": None}) == Settings(max_wait=5.0, keepalive=None)
    assert settings_of(None, {}) == Settings()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("max_retry", "no setting 'max_retry'; did you mean 'max_retries'", id="near"),
        pytest.param("budget", "no setting 'budget'; did you mean 'budgets'", id="of-a-scope"),
        pytest.param("zzz", "known are timeout, max_retries", id="far"),
    ],
)
def test_an_unknown_setting_names_the_nearest(name, message):
    with pytest.raises(TypeError, match=message):
        settings_of(None, {name: 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"max_retries": "3"}, "max_retries must be of type int, not str", id="text"),
        pytest.param({"max_retries": True}, "of type int, not bool", id="bool-for-int"),
        pytest.param({"max_wait": "1"}, "max_wait must be a number, not str", id="text-for-number"),
        pytest.param({"max_wait": False}, "a number, not bool", id="bool-for-number"),
        pytest.param({"wait": 2.0}, "wait must be callable, not float", id="wait-in-seconds"),
        pytest.param({"on_report": "print"}, "on_report must be callable", id="observer"),
        pytest.param({"ledger": "calls.jsonl"}, "ledger must be a Ledger, not str", id="ledger"),
        pytest.param({"keepalive": "1"}, "keepalive must be a number, not str", id="keepalive"),
        pytest.param({"ca_file": b"ca"}, "ca_file must be of type str, not bytes", id="file"),
        pytest.param({"timeout": Timeout(read="5")}, "timeout.read must be seconds", id="stage"),
        pytest.param({"ssl_context": True}, "ssl_context must be an ssl.SSLContext", id="context"),
        pytest.param({"clock": 5}, "clock must be a Clock, not int", id="clock"),
        pytest.param({"resend": 1}, "resend must be of type bool, not int", id="int-for-bool"),
        pytest.param(
            {"timeout": "5"}, "timeout must be seconds or a Timeout, not str", id="timeout"
        ),
    ],
)
def test_a_setting_of_the_wrong_type_is_refused(options, message):
    with pytest.raises(TypeError, match=message):
        settings_of(None, options)
    with pytest.raises(TypeError, match=message):
        Settings(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"max_retries": -1}, "max_retries must be at least 0, not -1", id="retries"),
        pytest.param({"max_connections": 0}, "at least 1, not 0", id="connections"),
        pytest.param({"max_wait": math.nan}, "max_wait must be a number, not nan", id="nan"),
        pytest.param({"timeout": Timeout(pool=0)}, "timeout.pool must be above 0 s", id="stage"),
        pytest.param({"max_event_bytes": 0}, "at least 1, not 0", id="event"),
        pytest.param({"keepalive": -1.0}, "at least 0 s, not -1; use None", id="keepalive"),
        pytest.param({"timeout": 10**400}, "at most 1,000,000 s, not more", id="endless"),
        pytest.param({"timeout": Timeout(idle=1e308)}, "at most 1,000,000 s", id="endless-stage"),
        pytest.param({"max_wait": math.inf}, "max_wait must be at most 1,000,000", id="wait"),
        pytest.param({"max_wait": -1}, "max_wait must be at least 0 s, not -1", id="wait-below-0"),
        pytest.param({"wait_jitter": -0.1}, "wait_jitter must be at least 0", id="jitter"),
        pytest.param({"keepalive": math.inf}, "keepalive.*use None", id="endless-keepalive"),
        pytest.param({"local_address": "\0"}, "local_address must be an IP", id="nul-address"),
        pytest.param({"ca_file": "a", "ssl_context": object()}, "not both", id="two-trusts"),
    ],
)
def test_a_setting_out_of_range_says_what_would_do(options, message):
    with pytest.raises(ValueError, match=message):
        settings_of(None, options)


def test_settings_take_one_number_too():
    assert Settings(timeout=7).timeout == settings_of(None, {"timeout": 7}).timeout
    assert Settings(timeout=7).timeout.read == 7.0


def test_settings_that_are_none_of_ours_are_refused():
    with pytest.raises(TypeError, match="settings must be a Settings, not dict"):
        settings_of({"max_retries": 1}, {})


def test_the_environment_is_read_as_the_sdks_do(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")

    assert environment("openai") == ("sk-env", None)
    assert environment("anthropic") == (None, "http://127.0.0.1:1")


def test_connections_get_their_part():
    options = net_options(Settings(max_connections=3, keepalive=None, ca_file="ca.pem"))

    assert (options.max_connections, options.idle_expiry, options.ca_file) == (3, None, "ca.pem")


# How connections leave this machine.

ORIGINS = [Origin("http", "a.example", 80), Origin("https", "a.example", 443)]
LOGIN = "http://me:s3cret@p.example:3128"


def test_a_proxy_is_for_every_origin_and_the_environment_is_not_asked():
    options = net_options(Settings(proxy=LOGIN), {"NO_PROXY": "*", "ALL_PROXY": "http://other"})

    assert [str(options.proxies.to(origin)) for origin in ORIGINS] == ["http://p.example:3128"] * 2


def test_without_one_the_environment_decides_when_the_client_is_made():
    options = net_options(Settings(), {"HTTPS_PROXY": LOGIN})

    assert [str(options.proxies.to(origin)) for origin in ORIGINS] == [
        "None",
        "http://p.example:3128",
    ]


@pytest.mark.parametrize("given", [{"trust_env": False}, {"uds": "/tmp/s"}])
def test_the_environment_may_be_left_out(given):
    options = net_options(Settings(**given), {"ALL_PROXY": LOGIN})

    assert options.proxies == Proxies()
    assert options.trust_env is given.get("trust_env", True)


def test_the_way_of_a_connection_is_passed_on():
    settings = Settings(
        proxy=LOGIN, local_address="127.0.0.1", socket_options=[[socket.SOL_SOCKET, SO_SNDBUF, 9]]
    )

    options = net_options(settings, {})

    assert options.local_address == "127.0.0.1"
    assert options.socket_options == ((socket.SOL_SOCKET, SO_SNDBUF, 9),)
    assert hash(options.socket_options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"proxy": LOGIN, "uds": "/tmp/s"}, "give one of them", id="proxy-uds"),
        pytest.param(
            {"uds": "/tmp/s", "local_address": "127.0.0.1"}, "uds or local_address", id="uds-local"
        ),
        pytest.param({"uds": ""}, "path of 1 to", id="no-path"),
        pytest.param({"uds": "/" + "x" * 200}, "not 201", id="long-path"),
        pytest.param({"local_address": "localhost"}, "must be an IP address", id="name"),
        pytest.param({"proxy": "p.example:3128"}, "proxy must begin with http://", id="no-scheme"),
        pytest.param(
            {"socket_options": [(socket.SOL_SOCKET, 99_999, 1)]}, "1, .* is refused", id="no-option"
        ),
    ],
)
def test_a_way_that_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        settings_of(None, options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"proxy": 1}, "proxy must be a URL, not int", id="proxy"),
        pytest.param({"trust_env": "no"}, "trust_env must be of type bool", id="env"),
        pytest.param({"uds": b"/tmp/s"}, "uds must be of type str", id="uds"),
        pytest.param({"socket_options": "x"}, "must be a list, not str", id="options"),
        pytest.param({"socket_options": [(1, 2)]}, "socket_options 1 must be", id="two"),
        pytest.param({"socket_options": [(1, 2, "x")]}, "socket_options 1 must be", id="text"),
    ],
)
def test_a_way_of_the_wrong_type_is_refused(options, message):
    with pytest.raises(TypeError, match=message):
        Settings(**options)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"proxy": "ftp://me:s3cret@p"}, id="no-proxy"),
        pytest.param({"proxy": LOGIN, "max_retries": -1}, id="another-option"),
        pytest.param({"proxy": LOGIN, "unknown": 1}, id="unknown-option"),
        pytest.param({"proxy": LOGIN, "uds": "/tmp/s"}, id="pair"),
    ],
)
def test_no_error_shows_the_password_nor_do_its_frames(given):
    with pytest.raises((ValueError, TypeError)) as caught:
        smartclient.Client(api_key="k", **given)

    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)][1:]
    assert "s3cret" not in f"{caught.value} {[frame.f_locals for frame in frames]}"
    assert frames


def test_settings_do_not_show_the_password():
    settings = Settings(proxy=LOGIN)

    assert "s3cret" not in f"{settings!r} {settings.__rich_repr__()} {net_options(settings)!r}"
    assert "p.example:3128" in repr(settings)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a.pem", Identity("a.pem")),
        (Path("a.pem"), Identity("a.pem")),
        (("a.pem", "k.pem"), Identity("a.pem", "k.pem")),
        (("a.pem", "k.pem", "secret"), Identity("a.pem", "k.pem", SecretBytes(b"secret"))),
        (("a.pem", None, b"secret"), Identity("a.pem", None, SecretBytes(b"secret"))),
    ],
)
def test_a_client_certificate_is_one_to_three_parts(given, expected):
    settings = Settings(client_cert=given)

    assert net_options(settings, {}).client_cert == expected
    assert "'secret'" not in repr(settings)


@pytest.mark.parametrize("given", [5, (), ("a", "b", "c", "d"), (None,), ("a", 5)])
def test_another_client_certificate_is_refused(given):
    with pytest.raises(TypeError, match="client_cert must be a path, or a tuple"):
        Settings(client_cert=given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trust_store": "windows"}, "trust_store must be 'certifi' or 'system'"),
        ({"trust_store": "system", "ca_file": "a.pem"}, "not both: a file is a list"),
        ({"ssl_context": CONTEXT, "client_cert": "a.pem"}, "give client_cert or ssl_context"),
        ({"ssl_context": CONTEXT, "trust_store": "system"}, "give trust_store or ssl_context"),
    ],
)
def test_whom_to_trust_is_said_once(options, message):
    with pytest.raises(ValueError, match=message):
        Settings(**options)


def test_an_error_about_a_variable_shows_none_of_the_others(monkeypatch):
    monkeypatch.setenv("OTHER_KEY", "s3cret")
    monkeypatch.setenv("ALL_PROXY", "socks4://p")

    with pytest.raises(ValueError, match="ALL_PROXY must begin with") as caught:
        net_options(Settings())

    shown = TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [frame.locals for frame in shown.stack if "/src/smartclient/" in frame.filename]
    assert ours
    assert "s3cret" not in f"{ours}"
