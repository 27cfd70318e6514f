from __future__ import annotations

import os
import ssl

import certifi
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from smartclient._call import Origin
from smartclient.net import NetOptions, tls
from smartclient.net.options import Identity
from smartclient.net.secret import SecretBytes
from smartclient.net.tls import TlsBuffer, Trust, tls_failure


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)


def test_certifi_is_trusted_when_nothing_is_said():
    trust = Trust.of(NetOptions())

    assert str(trust) == f"certifi's list ({certifi.where()})"
    assert trust.context().verify_mode is ssl.CERT_REQUIRED
    assert trust.context().check_hostname


def test_context_is_built_once_per_setting():
    assert Trust.of(NetOptions()).context() is Trust.of(NetOptions()).context()


def test_equal_settings_are_equal_keys_and_own_contexts_go_by_identity():
    one, other = (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2))

    assert Trust.of(NetOptions()) == Trust.of(NetOptions())
    assert Trust.of(NetOptions(ssl_context=one)) == Trust.of(NetOptions(ssl_context=one))
    assert Trust.of(NetOptions(ssl_context=one)) != Trust.of(NetOptions(ssl_context=other))


def test_environment_replaces_certifi(monkeypatch, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))

    trust = Trust.of(NetOptions())

    assert str(trust) == f"SSL_CERT_FILE and SSL_CERT_DIR ({certifi.where()}, {tmp_path})"
    assert trust.context().verify_mode is ssl.CERT_REQUIRED


def test_option_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/does/not/exist")

    assert Trust.of(NetOptions(ca_file=certifi.where())).source == "ca_file"


@pytest.mark.parametrize("setting", ["ca_file", "SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_missing_trust_store_is_named(monkeypatch, setting):
    options = NetOptions(ca_file="/gone.pem") if setting == "ca_file" else NetOptions()
    monkeypatch.setenv("SSL_CERT_FILE" if setting == "ca_file" else setting, "/gone.pem")

    with pytest.raises(ValueError, match=f"{setting} names '/gone.pem', which does not exist"):
        Trust.of(options)


def test_the_system_may_be_trusted():
    trust = Trust.of(NetOptions(trust_store="system"))

    assert str(trust) == "the system's list"
    assert trust.context().verify_mode is ssl.CERT_REQUIRED


def test_what_is_said_comes_before_the_environment(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())

    assert Trust.of(NetOptions(trust_store="system")).ca_file is None


def encrypted_key(folder) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    path = folder / "key.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"open sesame"),
        )
    )
    return str(path)


@pytest.mark.parametrize("password", [None, b"wrong-secret", b"open sesame"])
def test_a_client_certificate_that_cannot_be_used_is_refused(tmp_path, password):
    """Without a password OpenSSL would ask for it at the terminal."""
    cert = tmp_path / "cert.pem"
    trustme.CA().issue_cert("a.example").cert_chain_pems[0].write_to_path(cert)
    secret = None if password is None else SecretBytes(password)
    identity = Identity(str(cert), encrypted_key(tmp_path), secret)

    with pytest.raises(ValueError, match=r"cert\.pem' cannot be used") as caught:
        Trust.of(NetOptions(client_cert=identity)).context()

    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_client_certificate_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"client_cert names '/gone\.pem'"):
        Trust.of(NetOptions(client_cert=Identity("/gone.pem"))).context()


def test_failure_without_a_certificate_in_it_says_what_to_check():
    origin, _ = Origin.of("https://a.example/")

    error = tls_failure(origin, ConnectionResetError(104, "reset by peer"), Trust("x"))

    assert (error.kind, error.origin) == ("tls", "https://a.example:443")
    assert "reset by peer; check that this port speaks https" in str(error)


def two_ends() -> tuple[TlsBuffer, ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    authority = trustme.CA()
    client, server = (
        ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER)
    )
    authority.configure_trust(client)
    authority.issue_cert("a.example").configure_cert(server)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    return (
        TlsBuffer(client, "a.example"),
        server.wrap_bio(incoming, outgoing, True),
        incoming,
        outgoing,
    )


def shaken() -> tuple[TlsBuffer, ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    buffer, peer, incoming, outgoing = two_ends()
    assert not buffer.shake()
    incoming.write(buffer.pending())
    with pytest.raises(ssl.SSLWantReadError):
        peer.do_handshake()
    buffer.put(outgoing.read())
    assert buffer.shake()
    incoming.write(buffer.pending())
    peer.do_handshake()
    return buffer, peer, incoming, outgoing


@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_bytes_are_decrypted_in_whatever_pieces_they_come(size):
    buffer, peer, _, outgoing = shaken()
    peer.write(b"hello " * 10_000)
    sealed = outgoing.read()

    opened = b""
    for start in range(0, len(sealed), size):
        buffer.put(sealed[start : start + size])
        opened += buffer.decrypted()

    assert (opened, buffer.is_at_end) == (b"hello " * 10_000, False)


def test_what_is_said_reaches_the_peer():
    buffer, peer, incoming, _ = shaken()

    buffer.encrypt(b"hello")
    incoming.write(buffer.pending())

    assert peer.read() == b"hello"


@pytest.mark.parametrize("politely", [True, False])
def test_end_is_seen_with_and_without_a_goodbye(politely):
    buffer, peer, _, outgoing = shaken()
    peer.write(b"last")
    if politely:
        with pytest.raises(ssl.SSLWantReadError):
            peer.unwrap()

    buffer.put(outgoing.read())
    buffer.put(b"")

    assert (buffer.decrypted(), buffer.is_at_end) == (b"last", True)


class Session:
    has_ticket = True


def test_sessions_of_many_hosts_do_not_pile_up():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    for number in range(300):
        tls._keep_session(context, f"host-{number}", Session())

    assert len(tls._sessions[context]) == 256
    assert tls._session_with(context, "host-43") is None
    assert tls._session_with(context, "host-299") is not None


def test_a_file_without_certificates_is_named(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")

    with pytest.raises(ValueError, match=r"ca_file \(.*ca.pem\) cannot be used"):
        Trust.of(NetOptions(ca_file=str(path))).context()


def test_folders_of_certificates_may_be_a_list_one_of_which_is_there(monkeypatch, tmp_path):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", f"/missing{os.pathsep}{tmp_path}")
    assert Trust.of(NetOptions()).ca_dir == f"/missing{os.pathsep}{tmp_path}"

    monkeypatch.setenv("SSL_CERT_DIR", __file__)
    with pytest.raises(ValueError, match="does not exist or is no folder"):
        Trust.of(NetOptions())
