"""The other end of HTTP/2 for tests of our state: h2, and frames that it would not send."""

from __future__ import annotations

import struct

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event

from smartclient._call import Call, Headers, Origin, Trace
from smartclient.net.http2 import Http2
from smartclient.net.http2_reply import StreamReply
from smartclient.net.http2_request import fields_of

__all__ = ["OK", "Ends", "a_call", "frame", "goaway"]

OK = [(b":status", b"200"), (b"content-type", b"text/event-stream")]


def a_call(**changes) -> Call:
    fields = {
        "method": "POST",
        "origin": Origin("https", "a.example", 443),
        "target": "/v1/messages?beta=true",
        "headers": Headers({"X-Api-Key": "a-key"}),
        "trace": Trace(0.0),
        "body": b"{}",
    }
    return Call(**(fields | changes))


def frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, number) + payload


def goaway(last: int, code: int = 0) -> bytes:
    return frame(7, 0, 0, struct.pack(">II", last, code))


class Ends:
    """Both ends of a connection.

    Attributes:
        client: Ours.
        server: The other's.
        seen: What the server was told, in order.
    """

    def __init__(self, *, validates: bool = True) -> None:
        self.client = Http2(0.0)
        self.server = H2Connection(
            H2Configuration(
                client_side=False,
                validate_outbound_headers=validates,
                normalize_outbound_headers=validates,
            )
        )
        self.server.initiate_connection()
        self.seen: list[Event] = []
        self.pump()

    def pump(self) -> None:
        """Carry bytes both ways until there are none."""
        while True:
            sent, answered = self.client.pending(), self.server.data_to_send()
            if not (sent or answered):
                return
            self.seen += self.server.receive_data(sent) if sent else []
            if answered:
                self.client.receive(answered, 0.0)

    def ask(self, **changes) -> StreamReply:
        """Send a whole request, if the windows let it pass."""
        call = a_call(**changes)
        reply = StreamReply(call.method)
        self.client.open(reply, fields_of(call), ends=not call.body)
        if call.body:
            self.client.send(reply, memoryview(call.body), ends=True)
        self.pump()
        return reply

    def of(self, kind: type) -> list:
        """What the server was told of this kind."""
        return [event for event in self.seen if isinstance(event, kind)]
