"""The official SDKs against the scripted server, in every wire format."""

from __future__ import annotations

import json
import subprocess
import sys

import anthropic
import openai
import pytest

import server_reference
from server_reference.scripted import Answer, ErrorAnswer, ToolCall, Usage, rule

pytestmark = pytest.mark.sdk

EVERYTHING = Answer(
    "Look: é 日本",
    thinking="Let me see",
    tool_calls=[ToolCall("weather", {"city": "Oslo"})],
    usage=Usage(uncached=3, cache_read=7, output=20, reasoning=3),
)
SPLITS = ["event", "byte", "character", "crlf", 7]


class Messages:
    """`ask` gives text, tool calls and counts of a reply, streamed or not."""

    def __init__(self, server, **settings):
        self.client = anthropic.Anthropic(base_url=server.base_url, api_key="k", **settings)

    def ask(self, *, stream=False, user="hi"):
        settings = {
            "model": "m",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": user}],
        }
        if not stream:
            return self.read(self.client.messages.create(**settings))
        with self.client.messages.stream(**settings) as events:
            for _ in events:
                pass
            return self.read(events.get_final_message())

    def read(self, message):
        text = "".join(block.text for block in message.content if block.type == "text")
        calls = [(b.name, b.input) for b in message.content if b.type == "tool_use"]
        usage = message.usage
        cached = usage.cache_read_input_tokens
        return text, calls, (usage.input_tokens + cached, cached, usage.output_tokens)


class Chat:
    def __init__(self, server, **settings):
        base_url = f"{server.base_url}/v1"
        self.client = openai.OpenAI(base_url=base_url, api_key="k", **settings)

    def ask(self, *, stream=False, user="hi"):
        settings = {"model": "m", "messages": [{"role": "user", "content": user}]}
        if not stream:
            return self.read(self.client.chat.completions.create(**settings))
        settings["stream_options"] = {"include_usage": True}
        with self.client.chat.completions.stream(**settings) as events:
            for _ in events:
                pass
            return self.read(events.get_final_completion())

    def read(self, completion):
        message, usage = completion.choices[0].message, completion.usage
        calls = [
            (call.function.name, json.loads(call.function.arguments))
            for call in message.tool_calls or []
        ]
        cached = usage.prompt_tokens_details.cached_tokens
        counts = usage.prompt_tokens, cached, usage.completion_tokens
        return message.content or "", calls, counts


class Responses(Chat):
    def ask(self, *, stream=False, user="hi"):
        if not stream:
            return self.read(self.client.responses.create(model="m", input=user))
        with self.client.responses.stream(model="m", input=user) as events:
            for _ in events:
                pass
            return self.read(events.get_final_response())

    def read(self, response):
        calls = [
            (item.name, json.loads(item.arguments))
            for item in response.output
            if item.type == "function_call"
        ]
        usage = response.usage
        cached = usage.input_tokens_details.cached_tokens
        return response.output_text, calls, (usage.input_tokens, cached, usage.output_tokens)


@pytest.fixture
def using():
    """An SDK's client for a server, closed after the test."""
    clients = []

    def made(sdk, server, **settings):
        one = sdk(server, **settings)
        clients.append(one.client)
        return one

    yield made
    for client in clients:
        client.close()


every_format = pytest.mark.parametrize("sdk", [Messages, Chat, Responses])
streamed_or_not = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@every_format
@streamed_or_not
def test_an_sdk_reads_all_of_an_answer(using, sdk, stream):
    with server_reference.scripted(EVERYTHING) as server:
        text, calls, usage = using(sdk, server).ask(stream=stream)

    assert (text, calls) == ("Look: é 日本", [("weather", {"city": "Oslo"})])
    assert usage == (10, 7, 20)


@every_format
@pytest.mark.parametrize("split", SPLITS)
def test_an_sdk_reads_a_stream_wherever_its_writes_end(using, sdk, split):
    with server_reference.scripted(Answer("Look: é 日本", split=split)) as server:
        text, _, _ = using(sdk, server).ask(stream=True)

    assert text == "Look: é 日本"


@every_format
@streamed_or_not
def test_an_sdk_gets_through_errors_that_pass(using, sdk, stream):
    busy = ErrorAnswer(529, headers={"retry-after-ms": "1"})

    with server_reference.scripted([busy, busy, "at last"]) as server:
        text, _, _ = using(sdk, server).ask(stream=stream)

    assert text == "at last"


@every_format
def test_attempts_are_told_apart(using, sdk):
    again = ErrorAnswer(500, headers={"retry-after-ms": "1"})
    rules = [rule(again, attempt=[1, 2]), rule("third", attempt=3)]

    with server_reference.scripted(rules) as server:
        answers = [using(sdk, server).ask()[0] for _ in range(2)]

    assert answers == ["third", "third"]


@every_format
def test_a_call_that_no_rule_matches_is_an_error_at_once(using, sdk):
    one = rule("x", model="other")
    error = (openai.BadRequestError, anthropic.BadRequestError)

    with server_reference.scripted([one]) as server, pytest.raises(error, match="not 'other'"):
        using(sdk, server).ask()

    assert server.rules.played(one) == 0


@pytest.mark.parametrize(
    ("sdk", "error"),
    [
        (Messages, anthropic.APIStatusError),
        (Chat, openai.APIError),
    ],
)
def test_an_error_inside_a_stream_reaches_the_caller(using, sdk, error):
    broken = Answer("Half an", error=ErrorAnswer(529))

    with server_reference.scripted(broken) as server, pytest.raises(error, match="overloaded"):
        using(sdk, server, max_retries=0).ask(stream=True)


def test_a_response_that_fails_says_so(using):
    with server_reference.scripted(Answer("Half an", error=ErrorAnswer(500))) as server:
        client = using(Responses, server).client
        *_, last = client.responses.create(model="m", input="hi", stream=True)

    assert (last.type, last.response.status) == ("response.failed", "failed")


@every_format
def test_a_conversation_is_told_by_its_user(using, sdk):
    with server_reference.scripted([rule("meow", user="cat"), rule("woof", user="dog")]) as server:
        client = using(sdk, server)
        answers = [client.ask(user=f"a {pet}")[0] for pet in ("dog", "cat")]

    assert answers == ["woof", "meow"]


@pytest.mark.parametrize("first", ["function", "package"])
def test_the_server_starts_by_the_same_name_whatever_was_imported_first(first):
    imports = {
        "function": "import server_reference",
        "package": "import server_reference.scripted.ops as ops; ops.Body; import server_reference",
    }
    code = f"{imports[first]}; server_reference.scripted('x').stop(); print('started')"

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout == "started\n"
