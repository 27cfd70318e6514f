"""A call to a provider that only a proxy can reach: a tunnel that asks for a password.

Run it with `python -m examples.through_a_proxy`. It starts the provider and the proxy on this
machine, and stops them.
"""

from __future__ import annotations

import contextlib
import socket
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread

import server_reference
import smartclient

__all__ = ["main"]

_WANTED = b"proxy-authorization: Basic bWU6cEBzcw==\r\n"  # me:p@ss


class _Proxy(ThreadingTCPServer):
    """Tunnels by CONNECT for whoever has the password; every name is on this machine."""

    num_tunnels = 0


class _Connection(StreamRequestHandler):
    server: _Proxy

    def handle(self) -> None:
        head = [self.rfile.readline()]
        while head[-1].strip():
            head.append(self.rfile.readline())
        if _WANTED not in head:
            self.wfile.write(b"HTTP/1.1 407 Who are you?\r\ncontent-length: 0\r\n\r\n")
            return
        self.server.num_tunnels += 1
        port = int(head[0].split()[1].rpartition(b":")[2])
        with socket.create_connection(("127.0.0.1", port)) as provider:
            self.wfile.write(b"HTTP/1.1 200 Go on\r\n\r\n")
            back = Thread(target=_carry, args=(provider, self.connection))
            back.start()
            _carry(self.connection, provider)
            back.join()


def _carry(source: socket.socket, sink: socket.socket) -> None:
    """Until either end closes; then the other one is closed too."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _ask(client: smartclient.Client) -> None:
    message = client.messages.create(
        model="any", max_tokens=8, messages=[{"role": "user", "content": "Hello"}]
    )
    print("provider:", message.content[0].text)


def main() -> int:
    """Two calls through one tunnel, and one that the proxy refuses; 0 when it was so."""
    with _Proxy(("127.0.0.1", 0), _Connection) as proxy:
        Thread(target=proxy.serve_forever, daemon=True).start()
        at = f"127.0.0.1:{proxy.server_address[1]}"
        with server_reference.scripted("Hi there!", tls=True) as provider:
            url, ca_file = provider.base_url, provider.ca_file
            with smartclient.Client(
                base_url=url, api_key="none", ca_file=ca_file, proxy=f"http://me:p%40ss@{at}"
            ) as client:
                _ask(client)
                _ask(client)
            print("tunnels:", proxy.num_tunnels)
            with smartclient.Client(
                base_url=url, api_key="none", ca_file=ca_file, proxy=f"http://me:wrong@{at}"
            ) as client:
                try:
                    _ask(client)
                except smartclient.ExchangeError as error:
                    print("refused:", error)
        proxy.shutdown()
    return 0 if proxy.num_tunnels == 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
