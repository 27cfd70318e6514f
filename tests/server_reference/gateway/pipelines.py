"""A pipeline of the gateway in a test, and one request through it."""

from __future__ import annotations

import asyncio

from server_reference.api.chat import ChatRequest
from server_reference.api.record import CallRecord
from server_reference.checkpoints.registry import front
from server_reference.gateway.limits import Admission
from server_reference.gateway.metering import Meter
from server_reference.gateway.pipeline import Pipeline
from server_reference.gateway.routing import Router

__all__ = ["TINY", "a_pipeline", "a_record", "a_request", "generated", "run"]

TINY = front("tiny")


def a_pipeline(replica, *, model=TINY, max_running=8, max_queued=8):
    return Pipeline(
        model,
        Router([replica]),
        admission=Admission(max_running=max_running, max_queued=max_queued),
        meter=Meter(),
    )


def a_request(content="Hello", *, model="tiny", max_tokens=3, **fields):
    messages = [{"role": "user", "content": content}]
    return ChatRequest(model=model, messages=messages, max_tokens=max_tokens, **fields)


def a_record():
    record = CallRecord("/v1/messages")
    record.tenant = "ann"
    return record


async def generated(pipeline, request, record=None):
    return [event async for event in pipeline.generate(request, record or a_record())]


def run(pipeline, request, record=None):
    return asyncio.run(generated(pipeline, request, record))
