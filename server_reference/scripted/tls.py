"""TLS for tests: a certificate authority of one's own, and certificates right or wrong.

The authority is made anew each time and its key never leaves the process, so trusting it is
no risk; a key that is shipped with a test kit is known to everyone.
"""

from __future__ import annotations

import datetime
import os
import ssl
import tempfile
import weakref
from pathlib import Path

__all__ = ["Authority", "authority_of", "context_of"]

_NAMES = ("localhost", "127.0.0.1", "::1")
_LONG_AGO = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)


class Authority:
    """Signs certificates for servers; several can share one.

    Attributes:
        ca_file: Path of a file that clients trust, gone when the authority is.

    Raises:
        ModuleNotFoundError: trustme is not installed.
    """

    def __init__(self) -> None:
        try:
            import trustme
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "making a certificate authority needs trustme; install smartclient[scripted], or "
                "give tls= an ssl.SSLContext"
            ) from error
        self._authority = trustme.CA()
        handle, self.ca_file = tempfile.mkstemp(prefix="scripted-ca-", suffix=".pem")
        os.close(handle)
        file = Path(self.ca_file)
        file.write_bytes(self._authority.cert_pem.bytes())
        weakref.finalize(self, file.unlink, missing_ok=True)

    def context(self, *names: str, http2: bool = True, is_expired: bool = False) -> ssl.SSLContext:
        """A server's side of TLS, with a new certificate.

        Args:
            names: Hosts and addresses it is for; none are those of this machine.
            http2: Whether ALPN offers `h2` before `http/1.1`.
            is_expired: Whether it ended long ago.
        """
        until = _LONG_AGO if is_expired else None
        certificate = self._authority.issue_cert(*(names or _NAMES), not_after=until)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
        certificate.configure_cert(context)
        return context


def authority_of(tls: ssl.SSLContext | Authority | bool | None) -> Authority | None:
    """The authority that an option `tls` asks for, made when it is `True`."""
    if isinstance(tls, Authority):
        return tls
    return Authority() if tls is True else None


def context_of(
    tls: ssl.SSLContext | Authority | bool | None,
    authority: Authority | None,
    *,
    host: str,
    http2: bool,
) -> ssl.SSLContext | None:
    """The server's side of TLS that an option `tls` asks for; `None` is plain."""
    if authority is not None:
        return authority.context(*dict.fromkeys((*_NAMES, host)), http2=http2)
    return tls if isinstance(tls, ssl.SSLContext) else None
