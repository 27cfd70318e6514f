"""The authority for tests, by handshakes in memory."""

from __future__ import annotations

import gc
import ssl
import sys
from pathlib import Path

import pytest

from server_reference.scripted.tls import Authority, authority_of, context_of


@pytest.fixture(scope="module")
def authority():
    return Authority()


def trusting(authority):
    """A client as strict as Python 3.13 makes it."""
    context = ssl.create_default_context(cafile=authority.ca_file)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def handshake(of_server, of_client, host="localhost"):
    """The protocol that was agreed on."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = of_client.wrap_bio(down, up, server_hostname=host)
    server = of_server.wrap_bio(up, down, server_side=True)
    waiting = [client, server]
    while waiting:
        side = waiting.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(side)
    return client.selected_alpn_protocol()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_this_machine_is_trusted_by_each_of_its_names(authority, host):
    assert handshake(authority.context(), trusting(authority), host) == "h2"


def test_http2_may_be_left_out(authority):
    assert handshake(authority.context(http2=False), trusting(authority)) == "http/1.1"


@pytest.mark.parametrize(
    ("names", "is_expired", "why"),
    [
        pytest.param(["a.example"], False, "mismatch", id="another-host"),
        pytest.param([], True, "expired", id="expired"),
    ],
)
def test_certificates_may_be_wrong(authority, names, is_expired, why):
    wrong = authority.context(*names, is_expired=is_expired)

    with pytest.raises(ssl.SSLCertVerificationError, match=why):
        handshake(wrong, trusting(authority))


def test_another_authority_is_not_trusted(authority):
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        handshake(Authority().context(), trusting(authority))


def test_its_file_is_gone_with_it():
    short = Authority()
    file = Path(short.ca_file)
    was_there = file.exists()

    del short
    gc.collect()

    assert (was_there, file.exists()) == (True, False)


def test_an_option_makes_an_authority_shares_one_or_takes_a_context(authority):
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    assert authority_of(authority) is authority
    assert authority_of(True) is not None
    assert [authority_of(tls) for tls in (own, False, None)] == [None, None, None]
    assert context_of(own, None, host="127.0.0.1", http2=True) is own
    assert context_of(False, None, host="127.0.0.1", http2=True) is None


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "trustme", None)

    with pytest.raises(ModuleNotFoundError, match=r"install smartclient\[scripted\]"):
        Authority()
