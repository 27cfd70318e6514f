"""What each method of our own clients sends, and the typed answer that it gives."""

from __future__ import annotations

import inspect
import json

import pytest

from smartclient import IncompleteStreamError, ServerError
from smartclient import _resources as module
from tests.smartclient.clients import (
    ANSWER,
    ASKED,
    CHAT_GIVEN,
    GIVEN,
    RESPONSE_GIVEN,
    an_anthropic,
    an_openai,
)
from tests.smartclient.fakes import (
    CHAT,
    DONE,
    MESSAGE,
    RESPONSE,
    Answer,
    a_chunk,
    a_stream,
    an_event,
)

CREATED = an_event("response.created", response=RESPONSE | {"status": "in_progress", "output": []})
DELTA = an_event("response.output_text.delta", output_index=0, content_index=0, delta="Par")
COMPLETED = an_event("response.completed", response=RESPONSE)
FAILED = an_event(
    "response.failed",
    response=RESPONSE | {"status": "failed", "error": {"code": "server_error", "message": "broke"}},
)


@pytest.mark.parametrize(
    ("blocking", "awaited"),
    [
        pytest.param(module.Messages, module.AsyncMessages, id="messages"),
        pytest.param(module.Chat, module.AsyncChat, id="chat"),
        pytest.param(module.ChatCompletions, module.AsyncChatCompletions, id="completions"),
        pytest.param(module.Responses, module.AsyncResponses, id="responses"),
        pytest.param(module.InputTokens, module.AsyncInputTokens, id="input-tokens"),
    ],
)
def test_both_sides_have_the_same_methods(blocking, awaited):
    def methods(kind):
        own = {name: part for name, part in vars(kind).items() if inspect.isfunction(part)}
        return {name: list(inspect.signature(part).parameters) for name, part in own.items()}

    assert methods(blocking) == methods(awaited)


def test_a_message_is_answered(home):
    client, provider = an_anthropic(home, Answer(MESSAGE))

    message = home.do(client.messages.create(**GIVEN))

    assert message.content[0].text == "Paris"
    assert json.loads(provider.calls[0].body) == GIVEN
    assert provider.calls[0].target == "/v1/messages"


def test_a_chat_is_answered(home):
    client, provider = an_openai(home, Answer(CHAT))

    completion = home.do(client.chat.completions.create(**CHAT_GIVEN))

    assert completion.choices[0].message.content == "Paris"
    assert provider.calls[0].target == "/v1/chat/completions"


def test_an_answer_goes_back_byte_for_byte(home):
    """A provider caches a conversation by its bytes."""
    client, provider = an_anthropic(home, Answer(MESSAGE), Answer(MESSAGE))

    first = home.do(client.messages.create(**GIVEN))
    turns = [*ASKED, {"role": "assistant", "content": first.content}]
    home.do(client.messages.create(**GIVEN | {"messages": turns}))

    assert first.content[0].raw in provider.calls[1].body


def test_events_of_a_message_stream_in(home):
    client, provider = an_anthropic(home, a_stream(*ANSWER))

    events = home.all(home.do(client.messages.create(stream=True, **GIVEN)))

    assert events[-1].type == "message_stop"
    assert json.loads(provider.calls[0].body)["stream"] is True


def test_chunks_of_a_chat_stream_in(home):
    client, _ = an_openai(home, a_stream(a_chunk("Paris"), DONE))

    chunks = home.all(home.do(client.chat.completions.create(stream=True, **CHAT_GIVEN)))

    assert chunks[0].choices[0].delta.content == "Paris"


@pytest.mark.parametrize(
    ("a_client", "start", "pieces"),
    [
        pytest.param(an_anthropic, lambda c: c.messages.stream(**GIVEN), ANSWER, id="message"),
        pytest.param(
            an_openai,
            lambda c: c.chat.completions.stream(**CHAT_GIVEN),
            [a_chunk("Paris"), DONE],
            id="chat",
        ),
        pytest.param(
            an_openai,
            lambda c: c.responses.stream(**RESPONSE_GIVEN),
            [CREATED, DELTA, COMPLETED],
            id="response",
        ),
    ],
)
def test_an_answer_stream_is_sent_when_it_is_entered(home, a_client, start, pieces):
    client, provider = a_client(home, a_stream(*pieces))

    stream = start(client)
    assert provider.calls == []
    home.enter(stream)

    assert home.do(stream.get_final_text()) == "Paris"
    assert json.loads(provider.calls[0].body)["stream"] is True
    assert stream.report is client.last_report


def test_tokens_are_counted(home):
    client, provider = an_anthropic(home, Answer(b'{"input_tokens": 12}'))

    counted = home.do(client.messages.count_tokens(model="tiny", messages=ASKED))

    assert counted.input_tokens == 12
    assert provider.calls[0].target == "/v1/messages/count_tokens"
    assert client.last_report.endpoint == "POST /v1/messages/count_tokens"


def test_input_tokens_of_a_response_are_counted(home):
    client, provider = an_openai(home, Answer(b'{"object": "x", "input_tokens": 12}'))

    counted = home.do(client.responses.input_tokens.count(**RESPONSE_GIVEN))

    assert counted.input_tokens == 12
    assert json.loads(provider.calls[0].body) == RESPONSE_GIVEN
    assert provider.calls[0].target == "/v1/responses/input_tokens"


def test_input_tokens_are_not_anthropics(home):
    client, _ = an_anthropic(home)

    with pytest.raises(TypeError, match="provider='openai'"):
        home.do(client.responses.input_tokens.count(**RESPONSE_GIVEN))


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        pytest.param(lambda c: c.messages.create(model="tiny"), "max_tokens and messages", id="a"),
        pytest.param(lambda c: c.messages.create(stream=True), "model and max_tokens", id="stream"),
        pytest.param(lambda c: c.messages.count_tokens(model="tiny"), "messages", id="count"),
    ],
)
def test_a_missing_parameter_is_named_before_anything_is_sent(home, call, missing):
    client, provider = an_anthropic(home)

    with pytest.raises(TypeError, match=missing):
        home.do(call(client))

    assert provider.calls == []


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda c: c.messages.create(**GIVEN), id="create"),
        pytest.param(lambda c: c.messages.create(stream=True, **GIVEN), id="stream"),
        pytest.param(lambda c: c.messages.count_tokens(model="tiny", messages=[]), id="count"),
    ],
)
def test_messages_are_not_openais(home, call):
    client, _ = an_openai(home)

    with pytest.raises(TypeError, match="provider='anthropic'"):
        home.do(call(client))


def test_chat_is_not_anthropics(home):
    client, _ = an_anthropic(home)

    with pytest.raises(TypeError, match="provider='openai'"):
        home.do(client.chat.completions.create(**CHAT_GIVEN))


# Responses.


def test_a_response_is_answered(home):
    client, provider = an_openai(home, Answer(json.dumps(RESPONSE).encode()))

    response = home.do(client.responses.create(**RESPONSE_GIVEN))

    assert response.output_text == "Paris"
    assert provider.calls[0].target == "/v1/responses"
    assert json.loads(provider.calls[0].body) == RESPONSE_GIVEN
    assert (client.last_report.finish, client.last_report.usage.output) == ("completed", 2)


def test_output_goes_back_byte_for_byte(home):
    body = json.dumps(RESPONSE).encode()
    client, provider = an_openai(home, Answer(body), Answer(body))

    first = home.do(client.responses.create(**RESPONSE_GIVEN))
    home.do(client.responses.create(model="tiny", input=[*ASKED, *first.output, *ASKED]))

    assert first.output[0].raw in body
    assert first.output[0].raw in provider.calls[1].body


def test_events_of_a_response_stream_in(home):
    client, provider = an_openai(home, a_stream(CREATED, DELTA, COMPLETED))

    events = home.all(home.do(client.responses.create(stream=True, **RESPONSE_GIVEN)))

    assert [event.type for event in events] == [
        "response.created",
        "response.output_text.delta",
        "response.completed",
    ]
    assert json.loads(provider.calls[0].body)["stream"] is True
    assert (client.last_report.error, client.last_report.usage.output) == (None, 2)


@pytest.mark.parametrize("last", [b"", DONE], ids=["nothing", "foreign-mark"])
def test_a_response_that_is_cut_has_what_came(home, last):
    """Read by the SDK, half an answer passes for a whole one."""
    client, _ = an_openai(home, a_stream(CREATED, DELTA, last))

    stream = home.do(client.responses.create(stream=True, **RESPONSE_GIVEN))
    with pytest.raises(IncompleteStreamError) as cut:
        home.all(stream)

    assert (cut.value.partial.id, cut.value.partial.output_text) == ("resp_1", "Par")


def test_a_response_that_fails_after_content_raises_with_what_came(home):
    client, provider = an_openai(home, a_stream(CREATED, DELTA, FAILED))

    stream = home.do(client.responses.create(stream=True, **RESPONSE_GIVEN))
    with pytest.raises(ServerError, match="broke") as failed:
        home.all(stream)

    assert failed.value.partial.output_text == "Par"
    assert len(provider.calls) == 1


def test_a_response_that_fails_before_content_is_sent_again(home):
    answers = a_stream(CREATED, FAILED), a_stream(CREATED, DELTA, COMPLETED)
    client, provider = an_openai(home, *answers, max_retries=1)

    events = home.all(home.do(client.responses.create(stream=True, **RESPONSE_GIVEN)))

    assert events[-1].response.output_text == "Paris"
    assert len(provider.calls) == 2


def test_a_whole_response_that_failed_raises(home):
    failed = RESPONSE | {"status": "failed", "error": {"code": "server_error", "message": "broke"}}
    client, _ = an_openai(home, Answer(json.dumps(failed).encode()))

    with pytest.raises(ServerError, match="broke"):
        home.do(client.responses.create(**RESPONSE_GIVEN))


def test_responses_are_not_anthropics(home):
    client, _ = an_anthropic(home)

    with pytest.raises(TypeError, match="responses is openai's"):
        home.do(client.responses.create(**RESPONSE_GIVEN))


def test_a_response_needs_its_input(home):
    client, provider = an_openai(home)

    with pytest.raises(TypeError, match="the call needs input"):
        home.do(client.responses.create(model="tiny"))

    assert provider.calls == []
