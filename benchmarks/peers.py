"""The clients whose CPU time `client` compares, each in a process of its own.

Each peer makes the same call in its own way and reads the answer as its users do: typed
where it has types, with `json` where it has none.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from time import process_time
from typing import Any, Protocol
from urllib.parse import urlsplit

from .answering import answer

__all__ = ["ASYNC_PEERS", "PEERS", "AsyncPeer", "Peer"]

_MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


class Peer(Protocol):
    """A client that blocks."""

    def whole(self) -> str:
        """Make one call; the text of its answer."""
        ...

    def stream(self, model: str, size: int) -> Iterator[str]:
        """Make one streamed call; its pieces of text."""
        ...


class AsyncPeer(Protocol):
    """A client that is awaited."""

    async def whole(self) -> str: ...

    def stream(self, model: str, size: int) -> AsyncIterator[str]: ...

    async def close(self) -> None: ...


def _body(model: str, size: int, *, stream: bool) -> dict[str, Any]:
    plain = {"model": model, "max_tokens": size, "messages": _MESSAGES}
    return plain | {"stream": True} if stream else plain


class _Chat:
    """The OpenAI SDK, or a client of the same shape."""

    def __init__(self, client: Any) -> None:
        self._create = client.chat.completions.create

    def whole(self) -> str:
        return str(self._create(**_body("m", 64, stream=False)).choices[0].message.content)

    def stream(self, model: str, size: int) -> Iterator[str]:
        for chunk in self._create(**_body(model, size, stream=True)):
            if chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content


class _Messages:
    """The Anthropic SDK, or a client of the same shape."""

    def __init__(self, client: Any) -> None:
        self._create = client.messages.create

    def whole(self) -> str:
        return str(self._create(**_body("m", 64, stream=False)).content[0].text)

    def stream(self, model: str, size: int) -> Iterator[str]:
        for event in self._create(**_body(model, size, stream=True)):
            if event.type == "content_block_delta":
                yield event.delta.text


class _AsyncChat:
    """The async client of the OpenAI SDK, or one of the same shape."""

    def __init__(self, client: Any) -> None:
        self._create, self.close = client.chat.completions.create, client.close

    async def whole(self) -> str:
        return str((await self._create(**_body("m", 64, stream=False))).choices[0].message.content)

    async def stream(self, model: str, size: int) -> AsyncIterator[str]:
        async for chunk in await self._create(**_body(model, size, stream=True)):
            if chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content


class _AsyncMessages:
    """The async client of the Anthropic SDK, or one of the same shape."""

    def __init__(self, client: Any) -> None:
        self._create, self.close = client.messages.create, client.close

    async def whole(self) -> str:
        return str((await self._create(**_body("m", 64, stream=False))).content[0].text)

    async def stream(self, model: str, size: int) -> AsyncIterator[str]:
        async for event in await self._create(**_body(model, size, stream=True)):
            if event.type == "content_block_delta":
                yield event.delta.text


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

    def whole(self) -> str:
        return _text(self._client.post(self._url, json=_body("m", 64, stream=False)).json())

    def stream(self, model: str, size: int) -> Iterator[str]:
        body = _body(model, size, stream=True)
        with self._client.stream("POST", self._url, json=body) as reply:
            yield from filter(None, map(_piece, reply.iter_lines()))


class _Aiohttp:
    def __init__(self, url: str) -> None:
        import aiohttp

        self._session, self._url = aiohttp.ClientSession(), f"{url}/v1/chat/completions"
        self.close = self._session.close

    async def whole(self) -> str:
        async with self._session.post(self._url, json=_body("m", 64, stream=False)) as reply:
            return _text(await reply.json())

    async def stream(self, model: str, size: int) -> AsyncIterator[str]:
        async with self._session.post(self._url, json=_body(model, size, stream=True)) as reply:
            async for line in reply.content:
                if piece := _piece(line):
                    yield piece


class _Raw:
    """A socket and `json`: nearly the least that Python can do. It checks nothing."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._socket = socket.create_connection((parts.hostname, parts.port or 80))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def whole(self) -> str:
        self._send(_body("m", 64, stream=False))
        head, _, body = self._socket.recv(65536).partition(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2])
        while len(body) < length:
            body += self._socket.recv(65536)
        return _text(json.loads(body))

    def stream(self, model: str, size: int) -> Iterator[str]:
        self._send(_body(model, size, stream=True))
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


def _smartclient_async_chat(url: str) -> AsyncPeer:
    import smartclient

    return _AsyncChat(
        smartclient.AsyncClient(provider="openai", base_url=f"{url}/v1", api_key="none")
    )


def _smartclient_async_messages(url: str) -> AsyncPeer:
    import smartclient

    return _AsyncMessages(smartclient.AsyncClient(base_url=url, api_key="none"))


def _openai_async(url: str) -> AsyncPeer:
    import openai

    return _AsyncChat(openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none"))


def _anthropic_async(url: str) -> AsyncPeer:
    import anthropic

    return _AsyncMessages(anthropic.AsyncAnthropic(base_url=url, api_key="none"))


PEERS: dict[str, Callable[[str], Peer]] = {
    "smartclient, chat": _smartclient_chat,
    "openai": _openai,
    "openai, wrapped": _openai_wrapped,
    "httpx and json": _Httpx,
    "socket and json": _Raw,
    "smartclient, messages": _smartclient_messages,
    "anthropic": _anthropic,
}

ASYNC_PEERS: dict[str, Callable[[str], AsyncPeer]] = {
    "smartclient async, chat": _smartclient_async_chat,
    "openai async": _openai_async,
    "aiohttp and json": _Aiohttp,
    "smartclient async, messages": _smartclient_async_messages,
    "anthropic async": _anthropic_async,
}


def _batch(peer: Peer, calls: int, model: str | None, size: int) -> int:
    """Characters, or with a `model` pieces of text, that `calls` calls bring."""
    if model is None:
        return sum(len(peer.whole()) for _ in range(calls))
    return sum(1 for _ in range(calls) for _ in peer.stream(model, size))


async def _async_batch(peer: AsyncPeer, calls: int, model: str | None, size: int) -> int:
    if model is None:
        return sum([len(await peer.whole()) for _ in range(calls)])
    return sum([1 for _ in range(calls) async for _ in peer.stream(model, size)])


async def _made(url: str, make: Callable[[str], AsyncPeer]) -> AsyncPeer:
    return make(url)  # inside the loop, which aiohttp asks for


def _serve_batches(url: str, name: str) -> None:
    """Answer each batch with what it brought and the CPU seconds that it took."""
    if name in PEERS:
        peer = PEERS[name](url)
        answer(lambda **batch: _timed(lambda: _batch(peer, **batch)))
        return
    with asyncio.Runner() as runner:
        awaited = runner.run(_made(url, ASYNC_PEERS[name]))
        answer(lambda **batch: _timed(lambda: runner.run(_async_batch(awaited, **batch))))
        runner.run(awaited.close())


def _timed(work: Callable[[], int]) -> tuple[int, float]:
    begun = process_time()
    return work(), process_time() - begun


if __name__ == "__main__":
    _serve_batches(*sys.argv[1:])
