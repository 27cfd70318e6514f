"""A small, real LLM server: gateway, batching, paged KV cache, three wire formats.

`scripted` is a server that plays answers and faults instead, and `LLM` a model without a server;
each is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core import SamplingParams
    from .gateway.server import Server
    from .llm import LLM
    from .scripted.server import scripted

__all__ = ["LLM", "SamplingParams", "scripted", "start"]

_PLACES = {"LLM": "llm", "SamplingParams": "core"}


def start(model: str = "tiny", **config: Any) -> Server:
    """Start a server in a thread, with its engine in a process of its own.

    Args:
        model: `tiny`, `smollm2`, the path of a GGUF file or of a folder with safetensors, or a
            model of a hub, `organisation/model`.
        **config: Fields of `EngineConfig` and of `ServerConfig`: `api_keys`, `admin_key`,
            `host`, `port`, `max_body_bytes`, `request_log`.

    Returns:
        The running server, ready for requests: `base_url`, `api_key`, `stop()`. It is a
        context manager too.

    Raises:
        ModuleNotFoundError: The package was installed without its `server` extra.
        TypeError: An option is unknown.
        ValueError: An option's value is wrong.
        ServerStartError: It cannot start; the message says why in one sentence.
    """
    from .gateway.config import ServerConfig
    from .gateway.server import start as start_server

    return start_server(ServerConfig.of(model, config))


def __getattr__(name: str) -> Any:
    if name == "scripted":  # the package, which can be called
        return import_module(f".{name}", __name__)
    if name in _PLACES:
        return getattr(import_module(f".{_PLACES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
