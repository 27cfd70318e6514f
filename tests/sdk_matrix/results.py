"""Every way to ask an SDK: what a caller gets from each, as plain values to compare."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any

from pydantic import BaseModel

from tests.sdk_matrix.sides import ASKED, Side, entered, items, settled

__all__ = ["WAYS", "Way", "plain"]

Asking = Callable[[Side, Any], Awaitable[Any]]
CHANGING = frozenset({"id", "created", "created_at", "completed_at", "item_id"})


class Way:
    """One way to ask.

    Attributes:
        needs: What a version of the SDK must have for it.
    """

    def __init__(self, package: str, needs: str, ask: Asking) -> None:
        self.package, self.needs, self.ask = package, needs, ask
        self.name = f"{package}-{ask.__name__.removeprefix('_').replace('_', '-')}"

    def is_there(self, client: Any) -> bool:
        try:
            attrgetter(self.needs)(client)
        except AttributeError:
            return False
        return True


def plain(value: Any) -> Any:
    """`value` without ids and times, which differ from call to call."""
    if isinstance(value, BaseModel):
        return plain(value.model_dump(warnings=False))
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key not in CHANGING}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return plain(vars(value))
    return value


class Answer(BaseModel):
    """What a parse helper is asked for."""

    capital: str


GIVEN: dict[str, Any] = {"model": "tiny", "max_tokens": 64, "messages": ASKED}
ASKED_OF_RESPONSES: dict[str, Any] = {"model": "tiny", "input": "What is the capital of France?"}


async def _create(side: Side, client: Any) -> Any:
    return await side.ask(client)


async def _stream(side: Side, client: Any) -> Any:
    return await items(await side.ask(client, stream=True))


async def _raw(side: Side, client: Any) -> Any:
    raw = await settled(side.resource(client).with_raw_response.create(**GIVEN))
    response = raw.http_response
    facts = response.http_version, response.reason_phrase, raw.headers["content-type"]
    return raw.status_code, facts, await settled(raw.parse())


async def _raw_stream(side: Side, client: Any) -> Any:
    raw = await settled(side.resource(client).with_raw_response.create(**GIVEN, stream=True))
    return raw.status_code, await items(await settled(raw.parse()))


async def _streaming_response(side: Side, client: Any) -> Any:
    manager = side.resource(client).with_streaming_response.create(**GIVEN, stream=True)
    async with entered(manager) as response:
        lines = await items(response.iter_lines())
        return response.status_code, [line for line in lines if "{" not in line], len(lines)


async def _streaming_body(side: Side, client: Any) -> Any:
    async with entered(side.resource(client).with_streaming_response.create(**GIVEN)) as response:
        return plain(await settled(response.json()))


async def _chat_helper(side: Side, client: Any) -> Any:
    del side
    async with entered(client.chat.completions.stream(model="tiny", messages=ASKED)) as stream:
        events = [event.type for event in await items(stream)]
        return events, await settled(stream.get_final_completion())


async def _chat_parse(side: Side, client: Any) -> Any:
    del side
    asked = {"model": "tiny", "messages": ASKED, "response_format": Answer}
    return await settled(client.beta.chat.completions.parse(**asked))


async def _chat_parse_settled(side: Side, client: Any) -> Any:
    del side
    asked = {"model": "tiny", "messages": ASKED, "response_format": Answer}
    return await settled(client.chat.completions.parse(**asked))


async def _responses(side: Side, client: Any) -> Any:
    del side
    return await settled(client.responses.create(**ASKED_OF_RESPONSES))


async def _responses_stream(side: Side, client: Any) -> Any:
    del side
    return await items(await settled(client.responses.create(**ASKED_OF_RESPONSES, stream=True)))


async def _responses_helper(side: Side, client: Any) -> Any:
    del side
    async with entered(client.responses.stream(**ASKED_OF_RESPONSES)) as stream:
        events = [event.type for event in await items(stream)]
        return events, await settled(stream.get_final_response())


async def _responses_parse(side: Side, client: Any) -> Any:
    del side
    return await settled(client.responses.parse(**ASKED_OF_RESPONSES, text_format=Answer))


async def _messages_helper(side: Side, client: Any) -> Any:
    del side
    async with entered(client.messages.stream(**GIVEN)) as stream:
        pieces = await items(stream.text_stream)
        return pieces, await settled(stream.get_final_message())


async def _messages_parse(side: Side, client: Any) -> Any:
    del side
    return await settled(client.messages.parse(**GIVEN, output_format=Answer))


async def _beta_create(side: Side, client: Any) -> Any:
    del side
    return await settled(client.beta.messages.create(**GIVEN, betas=["some-beta"]))


async def _beta_stream(side: Side, client: Any) -> Any:
    del side
    return await items(await settled(client.beta.messages.create(**GIVEN, stream=True)))


async def _beta_helper(side: Side, client: Any) -> Any:
    del side
    async with entered(client.beta.messages.stream(**GIVEN)) as stream:
        events = [event.type for event in await items(stream)]
        return events, await settled(stream.get_final_message())


BOTH = (_create, _stream, _raw, _raw_stream, _streaming_response, _streaming_body)
WAYS = [
    *(Way("openai", "chat.completions.create", ask) for ask in BOTH),
    Way("openai", "chat.completions.stream", _chat_helper),
    Way("openai", "beta.chat.completions.parse", _chat_parse),
    Way("openai", "chat.completions.parse", _chat_parse_settled),
    Way("openai", "responses.create", _responses),
    Way("openai", "responses.create", _responses_stream),
    Way("openai", "responses.stream", _responses_helper),
    Way("openai", "responses.parse", _responses_parse),
    *(Way("anthropic", "messages.create", ask) for ask in BOTH),
    Way("anthropic", "messages.stream", _messages_helper),
    Way("anthropic", "messages.parse", _messages_parse),
    Way("anthropic", "beta.messages.create", _beta_create),
    Way("anthropic", "beta.messages.create", _beta_stream),
    Way("anthropic", "beta.messages.stream", _beta_helper),
]
