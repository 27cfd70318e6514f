"""Play any answer and any fault to a client, and judge it: a server for tests.

`server_reference.scripted(rules)` starts one. A package and a function share that name, so
the package can be called, whichever of the two was reached first.
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
    from .request import Received
    from .rules import Rule, rule
    from .server import ScriptedServer

__all__ = [
    "Admin",
    "Answer",
    "ErrorAnswer",
    "ManualClock",
    "Received",
    "Rule",
    "ScriptedServer",
    "ToolCall",
    "Usage",
    "json_reply",
    "rule",
]

_HOMES = {
    "Admin": "admin",
    "Answer": "answers",
    "ErrorAnswer": "answers",
    "ManualClock": "clock",
    "Received": "request",
    "Rule": "rules",
    "ScriptedServer": "server",
    "ToolCall": "answers",
    "Usage": "answers",
    "json_reply": "compile",
    "rule": "rules",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


class _Callable(ModuleType):
    def __call__(self, rules: Any = (), **config: Any) -> ScriptedServer:
        from .server import scripted

        return scripted(rules, **config)


sys.modules[__name__].__class__ = _Callable
