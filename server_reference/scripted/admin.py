"""The admin API: rules, journal, counters, verdict and clock over HTTP, for any language.

It listens on a port of its own, never on the one that plays the model: a client under test must
not reach it by mistake. Whoever calls it shows a token.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import msgspec

from ..credentials import bearer
from .admin_actions import Actions, AdminError
from .given import check_whole
from .server import ScriptedServer

__all__ = ["Admin"]

_log = logging.getLogger(__name__)

_MAX_BODY_BYTES = 8 * 2**20
_IDLE_SECONDS = 30.0
_POLL_SECONDS = 0.05


class Admin:
    """The admin API of a running server. Use it as a context manager, or call `stop`.

    Args:
        server: Whose API it is.
        host: Address to listen on.
        port: 0 takes a free one.
        token: What callers show as `Authorization: Bearer TOKEN`; `None` makes one up.

    Attributes:
        url: `http://127.0.0.1:PORT`.
        token: The token.

    Raises:
        ValueError: The token has fewer than 16 characters, or there is no such port.
        OSError: The port is taken.
    """

    def __init__(
        self,
        server: ScriptedServer,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        check_whole("port", port, 0, 65_535)
        self.token = secrets.token_urlsafe(24) if token is None else token
        if len(self.token) < 16:
            raise ValueError(f"token must have at least 16 characters, not {len(self.token)}")
        actions = Actions(server)
        expected = self.token.encode()

        class Handler(_Handler):
            def setup(self) -> None:
                self.actions, self.expected = actions, expected
                super().setup()

        self._http = ThreadingHTTPServer((host, port), Handler)
        self.url = f"http://{host}:{self._http.server_address[1]}"
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(_POLL_SECONDS,), name="admin", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Close the port. Calling it again does nothing."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
            self._http.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class _Handler(BaseHTTPRequestHandler):
    """One request; its connection is closed afterwards."""

    protocol_version = "HTTP/1.1"
    server_version = "scripted"
    sys_version = ""
    timeout = _IDLE_SECONDS
    actions: Actions
    expected: bytes

    def do_GET(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: stderr belongs to the test."""

    def _serve(self) -> None:
        fields: dict[str, str] = {}
        try:
            status, reply = 200, self._reply()
        except AdminError as error:
            status, reply = error.status, _error(str(error))
            if error.allow is not None:
                fields["allow"] = error.allow
        except Exception as error:
            _log.exception("%s %s failed", self.command, urlsplit(self.path).path)
            status, reply = 500, _error(f"the admin API failed: {type(error).__name__}: {error}")
        if status == 401:
            fields["www-authenticate"] = "Bearer"
        self._send(status, reply, fields)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Say in the API's own shape what the standard library says in HTML."""
        if code == 501:  # no `do_` for this method: the endpoint knows which ones it takes
            self._serve()
        else:
            self.request_version = self.protocol_version  # else a reply without a head
            self._send(code, _error(message or "this is no HTTP request; send one"), {})

    def _send(self, status: int, reply: object, fields: Mapping[str, str]) -> None:
        data = msgspec.json.encode(reply)
        self.close_connection = True
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _reply(self) -> object:
        shown = (bearer(self.headers.get("authorization")) or "").encode("utf-8", "replace")
        if not hmac.compare_digest(shown, self.expected):
            raise AdminError(401, "show the admin token as Authorization: Bearer TOKEN")
        action = self._action()
        return action(dict(parse_qsl(urlsplit(self.path).query)), self._body())

    def _action(self) -> Callable[[Mapping[str, str], Any], object]:
        path = urlsplit(self.path).path.rstrip("/") or "/"
        return self.actions.find(self.command, path)

    def _body(self) -> Any:
        length = self.headers.get("content-length", "0")
        if self.headers.get("transfer-encoding") or not length.isdecimal():
            raise AdminError(411, "send the body with a content-length")
        digits = length.lstrip("0")
        if len(digits) > 18 or int(length) > _MAX_BODY_BYTES:  # `int` takes 4,300 digits at most
            raise AdminError(413, f"a body has at most {_MAX_BODY_BYTES:,} bytes; send less")
        data = self.rfile.read(int(length))
        try:
            return msgspec.json.decode(data) if data else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise AdminError(400, f"the body is no JSON: {error}") from None


def _error(message: str) -> dict[str, object]:
    return {"error": {"message": message}}
