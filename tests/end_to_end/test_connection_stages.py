"""A slow stage of a call is the one that its report blames: names, TLS, the first token."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time

import pytest

import server_reference
import smartclient
from server_reference.scripted import Answer

SLOW = 0.15
ASKED = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}


class SlowRelay:
    """Takes a connection at once, and holds back the first that its server says."""

    def __init__(self, port):
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._ends = [self._listener]
        self._threads = [self._start(self._accept)]

    def _start(self, do, *args):
        thread = threading.Thread(target=do, args=args, daemon=True)
        thread.start()
        return thread

    def _accept(self):
        with contextlib.suppress(OSError):
            client, _ = self._listener.accept()
            server = socket.create_connection(self._to)
            self._ends += [client, server]
            self._threads.append(self._start(self._carry, client, server, 0.0))
            self._carry(server, client, SLOW)

    def _carry(self, source, target, delay):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                time.sleep(delay)
                delay = 0.0
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for end in self._ends:
            end.close()


def stages(url, *, is_async, **options):
    """The stages of one streamed call, in seconds."""
    given = {"base_url": url, "api_key": "k", "provider": "anthropic"} | options
    reports = []

    async def main():
        async with smartclient.AsyncClient(on_report=reports.append, **given) as client:
            async for _ in await client.messages.create(stream=True, **ASKED):
                pass

    if is_async:
        asyncio.run(main())
    else:
        with smartclient.Client(on_report=reports.append, **given) as client:
            list(client.messages.create(stream=True, **ASKED))
    return {name: stage.duration for name, stage in reports[0].stages.items()}


both = pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])


@both
def test_a_slow_handshake_is_told_as_tls(is_async):
    with server_reference.scripted("Hi!", tls=True) as server, SlowRelay(server.port) as relay:
        url = f"https://127.0.0.1:{relay.port}"
        told = stages(url, is_async=is_async, ca_file=server.ca_file)

    assert told["tls"] >= SLOW
    assert told["tcp"] < SLOW


@both
def test_a_slow_first_byte_is_told_as_the_time_to_the_first_token(is_async):
    with server_reference.scripted("Hi!") as server, SlowRelay(server.port) as relay:
        told = stages(f"http://127.0.0.1:{relay.port}", is_async=is_async)

    assert told["ttft"] >= SLOW
    assert max(told["tcp"], told["send"]) < SLOW


@both
def test_a_slow_answer_is_told_as_decode(is_async):
    answer = Answer(["Hello ", "big ", "world"], itl=SLOW)
    with server_reference.scripted(answer) as server:
        told = stages(server.base_url, is_async=is_async)

    assert told["decode"] >= 2 * SLOW * 0.9
    assert told["ttft"] < told["decode"]


@both
def test_a_slow_look_up_is_told_as_dns(is_async, monkeypatch):
    found = socket.getaddrinfo

    def slowly(host, port, *more, **how):
        time.sleep(SLOW)
        return found("127.0.0.1", port, *more, **how)

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    with server_reference.scripted("Hi!") as server:
        told = stages(f"http://slow.test:{server.port}", is_async=is_async)

    assert told["dns"] >= SLOW
    assert told["tcp"] < SLOW
