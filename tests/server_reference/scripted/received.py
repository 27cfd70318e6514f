"""Ordinary requests of each API; a test states only what matters to it."""

from __future__ import annotations

import json

from server_reference.scripted.request import Received

__all__ = ["PATHS", "a_request", "bodies", "joined"]

PATHS = {
    "anthropic.messages": "/v1/messages",
    "openai.chat": "/v1/chat/completions",
    "openai.responses": "/v1/responses",
}


def a_request(api="anthropic.messages", *, headers=(), number=1, attempt=1, at=0.0, **fields):
    """A `POST` with `fields` beside an ordinary body's; `user` is short for one message."""
    user = fields.pop("user", "hi")
    turns = {"input": user} if api == "openai.responses" else {}
    turns = turns or {"messages": [{"role": "user", "content": user}]}
    body = {"model": "tiny", **turns, **fields}
    return Received(
        "POST",
        PATHS[api],
        tuple(headers),
        json.dumps(body).encode(),
        number=number,
        attempt=attempt,
        received_at=at,
    )


def bodies(script):
    """The data of a script's body writes."""
    return [op.data for op in script if type(op).__name__ == "Body"]


def joined(script):
    return b"".join(bodies(script))
