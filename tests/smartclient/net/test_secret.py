"""Keys stay out of what shows the frames of an error."""

from __future__ import annotations

import io
from traceback import TracebackException

import pytest
from rich.console import Console
from rich.traceback import Traceback

import smartclient
from smartclient._call import Headers
from smartclient.net.http2_request import fields_of
from smartclient.net.secret import SecretBytes, SecretText, hidden

from .h2_server import a_call

KEY = "sk-" + "s3cret" * 20


def shown(error: Exception) -> str:
    """What tracebacks with locals show of our own frames."""
    plain = TracebackException.from_exception(error, capture_locals=True)
    ours = [str(f.locals) for f in plain.stack if "/src/smartclient/" in f.filename]
    console = Console(file=io.StringIO(), width=150)
    frames = error.__traceback__.tb_next  # without the test's own
    console.print(Traceback.from_exception(type(error), error, frames, show_locals=True))
    assert ours
    return "".join([*ours, console.file.getvalue()])


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
@pytest.mark.parametrize("make", [smartclient.Client, smartclient.AsyncClient])
@pytest.mark.parametrize("key", [KEY + "\n", KEY.encode()], ids=["line-end", "bytes"])
def test_a_key_that_is_refused_is_in_no_frame(provider, make, key):
    with pytest.raises((TypeError, ValueError), match="api_key") as caught:
        make(provider=provider, base_url="http://a.example", api_key=key)

    assert "s3cret" not in shown(caught.value)


def test_a_key_from_the_environment_that_is_refused_is_in_no_frame(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY + "\n")

    with pytest.raises(ValueError, match="api_key") as caught:
        smartclient.Client(base_url="http://a.example")

    assert "s3cret" not in shown(caught.value)


@pytest.mark.parametrize("form", ["create", "events", "stream"])
def test_extra_headers_that_are_refused_are_in_no_frame(form):
    client = smartclient.Client(base_url="http://127.0.0.1:1", api_key="k", max_retries=0)
    asked = {"model": "m", "max_tokens": 1, "messages": [], "extra_headers": {"x-key": KEY + "\n"}}

    with client, pytest.raises(ValueError, match="value of header 'x-key'") as caught:
        if form == "stream":
            client.messages.stream(**asked).__enter__()
        client.messages.create(**asked, stream=form == "events")

    assert "s3cret" not in shown(caught.value)


def test_a_missing_certificate_file_shows_no_other_variable(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/missing")
    monkeypatch.setenv("OTHER_KEY", KEY)
    client = smartclient.Client(base_url="https://127.0.0.1:1", api_key="k", max_retries=0)

    with client, pytest.raises(ValueError, match="SSL_CERT_FILE names '/missing'") as caught:
        client.messages.create(model="m", max_tokens=1, messages=[])

    assert "s3cret" not in shown(caught.value)


def test_what_is_no_name_is_not_shown_among_the_names_of_headers():
    assert repr(Headers([("a", "b"), (KEY + "\n", "c")])) == "Headers(a, ?)"


@pytest.mark.parametrize("secret", [KEY, KEY.encode(), {"x-key": KEY}, fields_of(a_call())])
def test_nothing_shows_a_secret_not_even_in_part(secret):
    told = secret if isinstance(secret, list) else hidden(secret)
    console = Console(file=io.StringIO(), width=150)
    from rich.pretty import Pretty

    console.print(Pretty(told, max_string=80))

    assert told == secret
    assert not {"s3cret", "a-key"} & set(f"{told!r} {console.file.getvalue()}".split("'"))
    assert "s3cret" not in f"{told!r} {console.file.getvalue()}"


def test_parts_of_secrets_are_secret():
    assert isinstance(SecretBytes(b"abc")[:2], SecretBytes)
    assert isinstance(SecretText("abc")[:2], SecretText)
    assert (SecretBytes(b"abc")[0], SecretText("abc")[0]) == (97, "a")
