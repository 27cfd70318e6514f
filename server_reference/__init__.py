"""A small, real LLM server: gateway, batching, paged KV cache, two wire formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .gateway.server import Server
    from .scripted.server import ScriptedServer

__all__ = ["scripted", "start"]


def start(model: str = "tiny", **config: Any) -> Server:
    """Start a server in a thread, with its engine in a process of its own.

    Args:
        model: `tiny`, `smollm2`, or the path of a GGUF file.
        **config: Fields of `EngineConfig` and of `ServerConfig`: `api_keys`, `host`, `port`,
            `max_body_bytes`, `request_log`.

    Returns:
        The running server, ready for requests: `base_url`, `api_key`, `stop()`. It is a
        context manager too.

    Raises:
        TypeError: An option is unknown.
        ValueError: An option's value is wrong.
        ServerStartError: It cannot start; the message says why in one sentence.
    """
    from .gateway.config import ServerConfig
    from .gateway.server import start as start_server

    return start_server(ServerConfig.of(model, config))


def scripted(rules: Any = (), **config: Any) -> ScriptedServer:
    """Start a server that plays answers and faults, in a thread.

    Args:
        rules: Rules (`server_reference.scripted.rule`), or what one plays, for any request:
            text, an `Answer`, an `ErrorAnswer`, a fault, a list of operations, a function of
            the request, or a list of these.
        **config: Parameters of `ScriptedServer`: `api_keys`, `clock`, `host`, `port`, `tls`, …

    Returns:
        The running server, ready for requests: `base_url`, `api_key`, `stop()`. It is a
        context manager too.

    Raises:
        TypeError: An option is unknown, or something cannot be played.
        ValueError: An option or a rule is wrong; the message names it and the nearest known.
    """
    from .scripted.server import scripted as start_scripted

    return start_scripted(rules, **config)
