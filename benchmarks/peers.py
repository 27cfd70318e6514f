"""The clients whose CPU time `connections` compares, each in a process of its own.

Each peer makes the same call in its own way and reads the answer as its users do: typed
where it has types, with `json` where it has none.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import process_time
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from .answering import answer
from .replies import messages, stream_text, whole_text

__all__ = ["ASYNC_PEERS", "PEERS", "AsyncPeer", "Peer", "Pieces"]


class Peer(Protocol):
    """A client that blocks."""

    def whole(self, number: int) -> str:
        """Ask the question with this number; the text of its answer."""
        ...

    def stream(self, number: int, model: str, size: int) -> Iterator[str]:
        """The same, streamed; the pieces of text."""
        ...


class AsyncPeer(Protocol):
    """A client that is awaited."""

    async def whole(self, number: int) -> str: ...

    async def close(self) -> None: ...


def _body(number: int, model: str = "m", size: int = 64, **more: bool) -> dict[str, Any]:
    return {"model": model, "max_tokens": size, "messages": messages(number), **more}


class _Chat:
    """The OpenAI SDK, or a client of the same shape."""

    def __init__(self, client: Any) -> None:
        self._create = client.chat.completions.create

    def whole(self, number: int) -> str:
        return str(self._create(**_body(number)).choices[0].message.content)

    def stream(self, number: int, model: str, size: int) -> Iterator[str]:
        for chunk in self._create(**_body(number, model, size, stream=True)):
            if chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content


class _Messages:
    """The Anthropic SDK, or a client of the same shape."""

    def __init__(self, client: Any) -> None:
        self._create = client.messages.create

    def whole(self, number: int) -> str:
        return str(self._create(**_body(number)).content[0].text)

    def stream(self, number: int, model: str, size: int) -> Iterator[str]:
        for event in self._create(**_body(number, model, size, stream=True)):
            if event.type == "content_block_delta":
                yield event.delta.text


class _AsyncChat:
    """Our async client, in the shape of the OpenAI SDK's."""

    def __init__(self, client: Any) -> None:
        self._create, self.close = client.chat.completions.create, client.close

    async def whole(self, number: int) -> str:
        return str((await self._create(**_body(number))).choices[0].message.content)


def _text(reply: Any) -> str:
    return str(reply["choices"][0]["message"]["content"])


def _piece(line: str | bytes) -> str:
    """The text of one line of an event stream; empty where it has none."""
    start: Any = "data: {" if isinstance(line, str) else b"data: {"
    if not line.startswith(start):
        return ""
    return json.loads(line[6:])["choices"][0]["delta"].get("content") or ""


class _Httpx:
    def __init__(self, url: str) -> None:
        import httpx

        self._client, self._url = httpx.Client(), f"{url}/v1/chat/completions"

    def whole(self, number: int) -> str:
        return _text(self._client.post(self._url, json=_body(number)).json())

    def stream(self, number: int, model: str, size: int) -> Iterator[str]:
        body = _body(number, model, size, stream=True)
        with self._client.stream("POST", self._url, json=body) as reply:
            yield from filter(None, map(_piece, reply.iter_lines()))


class _Aiohttp:
    def __init__(self, url: str) -> None:
        import aiohttp

        # As many connections as calls in flight, as ours have; its own limit is 100.
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._url = f"{url}/v1/chat/completions"
        self.close = self._session.close

    async def whole(self, number: int) -> str:
        async with self._session.post(self._url, json=_body(number)) as reply:
            return _text(await reply.json())


class _Raw:
    """A socket and `json`: nearly the least that Python can do. It checks nothing."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._socket = socket.create_connection((parts.hostname, parts.port or 80))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def whole(self, number: int) -> str:
        self._send(_body(number))
        head, _, body = self._socket.recv(65536).partition(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2])
        while len(body) < length:
            body += self._socket.recv(65536)
        return _text(json.loads(body))

    def stream(self, number: int, model: str, size: int) -> Iterator[str]:
        self._send(_body(number, model, size, stream=True))
        data = b""
        while not data.endswith(b"\r\n0\r\n\r\n"):
            data += self._socket.recv(65536)
            *lines, data = data.split(b"\n\n") if b"\n\n" in data else (data,)
            for line in lines:
                # Past the sizes of the chunks, which lie between the events.
                if piece := _piece(line[max(line.find(b"data: "), 0) :]):
                    yield piece

    def _send(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        self._socket.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)


def _smartclient_chat(url: str) -> Peer:
    import smartclient

    return _Chat(smartclient.Client(provider="openai", base_url=f"{url}/v1", api_key="none"))


def _smartclient_messages(url: str) -> Peer:
    import smartclient

    return _Messages(smartclient.Client(base_url=url, api_key="none"))


def _openai(url: str) -> Peer:
    import openai

    return _Chat(openai.OpenAI(base_url=f"{url}/v1", api_key="none"))


def _openai_wrapped(url: str) -> Peer:
    import openai

    import smartclient

    return _Chat(smartclient.wrap(openai.OpenAI(base_url=f"{url}/v1", api_key="none")))


def _anthropic(url: str) -> Peer:
    import anthropic

    return _Messages(anthropic.Anthropic(base_url=url, api_key="none"))


def _anthropic_wrapped(url: str) -> Peer:
    import anthropic

    import smartclient

    return _Messages(smartclient.wrap(anthropic.Anthropic(base_url=url, api_key="none")))


def _smartclient_async_chat(url: str) -> AsyncPeer:
    import smartclient

    return _AsyncChat(
        smartclient.AsyncClient(provider="openai", base_url=f"{url}/v1", api_key="none")
    )


PEERS: dict[str, Callable[[str], Peer]] = {
    "smartclient, chat": _smartclient_chat,
    "openai": _openai,
    "openai, wrapped": _openai_wrapped,
    "httpx and json": _Httpx,
    "socket and json": _Raw,
    "smartclient, messages": _smartclient_messages,
    "anthropic": _anthropic,
    "anthropic, wrapped": _anthropic_wrapped,
}

ASYNC_PEERS: dict[str, Callable[[str], AsyncPeer]] = {
    "smartclient async, chat": _smartclient_async_chat,
    "aiohttp and json": _Aiohttp,
}

Pieces: TypeAlias = list[str]
"""The text of one answer, as it came."""


def _batch(peer: Peer, numbers: Iterable[int], model: str | None, size: int) -> list[Pieces]:
    if model is None:
        return [[peer.whole(number)] for number in numbers]
    return [list(peer.stream(number, model, size)) for number in numbers]


async def _async_batch(peer: AsyncPeer, numbers: Iterable[int], in_flight: int) -> list[Pieces]:
    asked, answers = iter(numbers), dict[int, Pieces]()

    async def ask() -> None:
        for number in asked:  # shared: whoever is free asks the next question
            answers[number] = [await peer.whole(number)]

    await asyncio.gather(*(ask() for _ in range(in_flight)))
    return [answers[number] for number in numbers]


async def _made(url: str, make: Callable[[str], AsyncPeer]) -> AsyncPeer:
    return make(url)  # inside the loop, which aiohttp asks for


def _check(answers: Iterable[Pieces], numbers: Iterable[int], model: str | None, size: int) -> None:
    """Raise when an answer is not the one to its question, in as many pieces as were sent."""
    for number, pieces in zip(numbers, answers, strict=True):
        expected = whole_text(number) if model is None else stream_text(number, size)
        if "".join(pieces) != expected or len(pieces) != (1 if model is None else size):
            raise RuntimeError(f"question {number} got {''.join(pieces)!r}, not {expected!r}")


def _serve_batches(url: str, name: str) -> None:
    """Answer each batch with the CPU seconds that it took, once every answer is checked."""
    if name in PEERS:
        peer = PEERS[name](url)
        answer(lambda **asked: _timed(partial(_batch, peer), **asked))
        return
    with asyncio.Runner() as runner:
        awaited = runner.run(_made(url, ASYNC_PEERS[name]))

        def run(numbers: range, model: None, size: int, in_flight: int) -> list[Pieces]:
            return runner.run(_async_batch(awaited, numbers, in_flight))

        answer(lambda **asked: _timed(run, **asked))
        runner.run(awaited.close())


def _timed(
    work: Callable[..., list[Pieces]],
    *,
    first: int,
    calls: int,
    model: str | None,
    size: int,
    **more: int,
) -> float:
    numbers = range(first, first + calls)
    begun = process_time()
    answers = work(numbers, model, size, **more)
    seconds = process_time() - begun
    _check(answers, numbers, model, size)
    return seconds


if __name__ == "__main__":
    _serve_batches(*sys.argv[1:])
