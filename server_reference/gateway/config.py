"""What a server is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..config import EngineConfig
from .limits import MAX_BODY_BYTES
from .request_log import LogTarget

__all__ = ["ServerConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """How one server runs.

    Args:
        engine: How its engine runs.
        api_keys: Keys that are let in: a list, or a mapping from key to the tenant that it
            names. `None` lets everyone in, as one tenant.
        admin_key: Shows what the engine does, to `smartclient-server explain` among others.
            `None` shows it to this machine only, and to nobody where there are `api_keys`.
        host: Address to listen on. The default is reached from this machine only.
        port: 0 takes a free one.
        max_body_bytes: Longest body of a request.
        request_log: Where a line of JSON per request goes: a file, `-` for stderr, or a
            callable that takes the fields. `None` writes none.
    """

    engine: EngineConfig = field(default_factory=EngineConfig)
    api_keys: Mapping[str, str] | Sequence[str] | None = None
    admin_key: str | None = None
    host: str = "127.0.0.1"
    port: int = 0
    max_body_bytes: int = MAX_BODY_BYTES
    request_log: LogTarget | None = None

    def __post_init__(self) -> None:
        port, most = self.port, self.max_body_bytes
        if not isinstance(self.host, str) or not self.host:
            raise ValueError(f"host must be a name or an address, not {self.host!r}")
        if type(port) is not int or not 0 <= port <= 65535:
            raise ValueError(f"port must be from 0 to 65535, not {port!r}; 0 takes a free one")
        if type(most) is not int or most < 1:
            raise ValueError(f"max_body_bytes must be an integer of at least 1, not {most!r}")
        log = self.request_log
        if not (log is None or isinstance(log, str | Path) or callable(log)):
            raise ValueError(f"request_log must be a file, '-' or a callable, not {log!r}")

    @classmethod
    def of(cls, model: str, options: Mapping[str, Any]) -> ServerConfig:
        """Sort options by whether they are the engine's or the server's.

        Raises:
            TypeError: An option is unknown.
            ValueError: An option's value is wrong.
        """
        engine = {one.name for one in fields(EngineConfig)} - {"model"}
        server = {one.name for one in fields(cls)} - {"engine"}
        known = sorted(engine | server)
        for name in options:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                raise TypeError(f"there is no option {name!r}; {hint}")
        return cls(
            engine=EngineConfig(
                model=model, **{name: options[name] for name in options if name in engine}
            ),
            **{name: options[name] for name in options if name in server},
        )
