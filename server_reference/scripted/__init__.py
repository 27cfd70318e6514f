"""Play any answer and any fault to a client, and judge it: a server for tests.

`server_reference.scripted(rules, **config)` starts one in a thread. The package and the call
have one name, so the package can be called, whichever of the two was reached first.

Args:
    rules: Rules (`rule`), or what one plays, for any request: text, an `Answer`, an
        `ErrorAnswer`, a fault, a list of operations, a function of the request, or a list
        of these.
    **config: Fields of `ScriptedConfig`: `api_keys`, `clock`, `host`, `port`, `tls`, …

Returns:
    The running server, ready for requests: `base_url`, `api_key`, `stop()`. It is a context
    manager too.

Raises:
    TypeError: An option is unknown, or something cannot be played.
    ValueError: An option or a rule is wrong; the message names it and the nearest known.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .admin import Admin
    from .answers import Answer, ErrorAnswer, ToolCall, Usage
    from .clock import ManualClock
    from .compile import json_reply
    from .faults import fault, faults_at, greeting
    from .hooks import Fault, Observer, Provider
    from .recorder import Recorder
    from .replay import Replay
    from .request import Received
    from .rules import Rule, Rules, rule
    from .server import ScriptedServer
    from .tls import Authority

__all__ = [
    "Admin",
    "Answer",
    "Authority",
    "ErrorAnswer",
    "Fault",
    "ManualClock",
    "Observer",
    "Provider",
    "Received",
    "Recorder",
    "Replay",
    "Rule",
    "ScriptedServer",
    "ToolCall",
    "Usage",
    "fault",
    "faults_at",
    "greeting",
    "json_reply",
    "rule",
]

_HOMES = {
    "Admin": "admin",
    "Answer": "answers",
    "Authority": "tls",
    "ErrorAnswer": "answers",
    "Fault": "hooks",
    "ManualClock": "clock",
    "Observer": "hooks",
    "Provider": "hooks",
    "Received": "request",
    "Recorder": "recorder",
    "Replay": "replay",
    "Rule": "rules",
    "ScriptedServer": "server",
    "ToolCall": "answers",
    "Usage": "answers",
    "fault": "faults",
    "faults_at": "faults",
    "greeting": "faults",
    "json_reply": "compile",
    "rule": "rules",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


class _Callable(ModuleType):
    def __call__(self, rules: Rules = (), **config: Any) -> ScriptedServer:
        from .server import scripted

        return scripted(rules, **config)


sys.modules[__name__].__class__ = _Callable
