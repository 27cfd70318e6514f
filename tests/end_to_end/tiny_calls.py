"""What the tests of the running server ask of `tiny`."""

from __future__ import annotations

__all__ = ["ANN", "BOB", "BOTH", "LONG", "chat", "engine_pid", "is_idle", "messages"]

ANN, BOB = "sk-ann", "sk-bob"
BOTH = ("/v1/messages", "/v1/chat/completions")
LONG = {"max_tokens": 900, "temperature": 0}


def messages(content="Hello", *, max_tokens=4, **fields):
    turns = [{"role": "user", "content": content}]
    return {"model": "tiny", "max_tokens": max_tokens, "messages": turns} | fields


def chat(content="Hello", **fields):
    return {"model": "tiny", "messages": [{"role": "user", "content": content}]} | fields


def is_idle(server):
    stats = server.stats()
    return (
        stats is not None
        and stats.num_running == stats.num_queued == 0
        and stats.num_free_blocks == stats.num_blocks
    )


def engine_pid(server):
    return server._engine._link._process.pid
