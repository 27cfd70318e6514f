"""An HTTP/2 client by hand: it sends the frames that a test tells it, and shows what comes."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any, Self

import hpack
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from server_reference.scripted.server import ScriptedServer

__all__ = ["PREFACE", "RawHttp2"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class RawHttp2:
    """One connection by prior knowledge, or by ALPN when the server has TLS.

    Frames are shown as tuples: `("HEADERS", 1, {":status": "200"})`, `("DATA", 1, b"ok")`,
    `("END", 1)` for an empty DATA with END_STREAM, `("RST", 1, 8)`, `("GOAWAY", 1, 0)`,
    `("SETTINGS", {3: 100})`, `("ACK",)`, `("WINDOW", 0, 32768)`, `("PONG", b"…")`. SETTINGS
    are acknowledged; nothing else happens by itself.

    Attributes:
        first: The server's first frame.
        closed_by: How the connection ended.
    """

    def __init__(self, server: ScriptedServer, *, settings: dict[int, int] | None = None) -> None:
        self.sock = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        if server.ca_file is not None:
            context = ssl.create_default_context(cafile=server.ca_file)
            context.set_alpn_protocols(["h2"])
            self.sock = context.wrap_socket(
                self.sock, server_hostname="localhost", suppress_ragged_eofs=False
            )
        self._encoder, self._decoder = hpack.Encoder(), hpack.Decoder()
        self._seen = b""
        self.closed_by: str | None = None
        self.sock.sendall(PREFACE + SettingsFrame(0, settings=settings or {}).serialize())
        self.first = self.frame()

    def send(self, *frames: Frame) -> None:
        self.sock.sendall(b"".join(frame.serialize() for frame in frames))

    def head(self, number: int, path: str, method: str, *fields: Any, ends: bool) -> HeadersFrame:
        pseudo = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)]
        flags = ["END_HEADERS", "END_STREAM"] if ends else ["END_HEADERS"]
        return HeadersFrame(number, self._encoder.encode([*pseudo, *fields]), flags=flags)

    def ask(
        self, number: int = 1, path: str = "/any", *fields: Any, body: bytes = b"", method="POST"
    ) -> None:
        """A whole request."""
        frames: list[Frame] = [self.head(number, path, method, *fields, ends=not body)]
        if body:
            frames.append(DataFrame(number, body, flags=["END_STREAM"]))
        self.send(*frames)

    def begin(self, number: int = 1, path: str = "/any") -> None:
        """A request whose body is still to come."""
        self.send(self.head(number, path, "POST", ends=False))

    def data(self, number: int, body: bytes, *, ends: bool = False) -> None:
        self.send(DataFrame(number, body, flags=["END_STREAM"] if ends else []))

    def reset(self, number: int, code: int = 8) -> None:
        self.send(RstStreamFrame(number, error_code=code))

    def grant(self, number: int, size: int) -> None:
        self.send(WindowUpdateFrame(number, window_increment=size))

    def settings(self, values: dict[int, int]) -> None:
        self.send(SettingsFrame(0, settings=values))

    def ping(self, data: bytes = b"12345678") -> None:
        self.send(PingFrame(0, opaque_data=data))

    def frame(self) -> tuple[Any, ...] | None:
        """The next frame; `None` when the connection has ended (`closed_by` says how)."""
        head = self._read(9)
        if head is None:
            return None
        parsed, length = Frame.parse_frame_header(memoryview(head))
        body = self._read(length)
        assert body is not None
        parsed.parse_body(memoryview(body))
        return self._shown(parsed)

    def until(self, *last: Any) -> list[tuple[Any, ...]]:
        """What comes up to a frame that begins with `last`, without acknowledgements."""
        return self._collect(lambda one: one[: len(last)] == last)

    def to_the_end(self) -> list[tuple[Any, ...]]:
        """What comes until the connection ends."""
        return self._collect(lambda one: False)

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _collect(self, is_last: Callable[[tuple[Any, ...]], bool]) -> list[tuple[Any, ...]]:
        seen = []
        while (one := self.frame()) is not None:
            if one != ("ACK",):
                seen.append(one)
            if is_last(one):
                break
        return seen

    def _read(self, size: int) -> bytes | None:
        while len(self._seen) < size:
            try:
                more = self.sock.recv(65_536)
            except ConnectionResetError:
                self.closed_by = "reset"
                return None
            except ssl.SSLEOFError:
                self.closed_by = "no close_notify"  # or a reset, when TLS is in between
                return None
            if not more:
                self.closed_by = "fin"
                return None
            self._seen += more
        data, self._seen = self._seen[:size], self._seen[size:]
        return data

    def _shown(self, frame: Frame) -> tuple[Any, ...]:
        number = frame.stream_id
        match frame:
            case HeadersFrame():
                return "HEADERS", number, dict(self._decoder.decode(frame.data))
            case DataFrame():
                ends = "END_STREAM" in frame.flags
                shown = ("END", number) if ends else ("DATA", number, bytes(frame.data))
                assert not (ends and frame.data)
                return shown
            case RstStreamFrame():
                return "RST", number, frame.error_code
            case GoAwayFrame():
                return "GOAWAY", frame.last_stream_id, frame.error_code
            case WindowUpdateFrame():
                return "WINDOW", number, frame.window_increment
            case PingFrame():
                return "PONG", frame.opaque_data
            case SettingsFrame() if "ACK" in frame.flags:
                return ("ACK",)
            case SettingsFrame():
                self.send(SettingsFrame(0, flags=["ACK"]))
                return "SETTINGS", dict(frame.settings)
        raise AssertionError("unreachable")
