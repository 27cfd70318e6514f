"""What schemathesis loads when the tests run it: short answers, odd headers, one more check."""

from __future__ import annotations

import itertools
import json
import re
from functools import partial
from typing import Any

import schemathesis
from llguidance import LLMatcher, LLTokenizer

from server_reference.api import anthropic_messages, openai_chat, openai_responses
from server_reference.api.chat import ChatRequest
from server_reference.api.errors import ApiError
from server_reference.gateway.grammars import grammar_of
from server_reference.gateway.validation import check_tokens

__all__ = ["add_odd_header", "filter_body", "filter_case", "is_an_error_of_the_api", "map_body"]

_LIMITS = {
    "/v1/messages": ["max_tokens"],
    "/v1/chat/completions": ["max_tokens", "max_completion_tokens"],
    "/v1/responses": ["max_output_tokens"],
}
_ODD: list[dict[str, str]] = [
    {},
    {"content-type": "text/plain; charset=utf-16"},
    {"content-encoding": "gzip"},
    {"accept": "image/png;q=x", "accept-encoding": "zstd;q=nan"},
    {"x-stainless-retry-count": "9" * 30},
    {"x-stainless-retry-count": "\xb2"},
    {"anthropic-version": "never", "anthropic-beta": "\xff,,"},
    {"x-forwarded-for": "'; --", "cookie": "=;=;\xe9"},
    {"idempotency-key": "k" * 4000, "range": "bytes=5-1", "if-none-match": "*"},
    {"te": "trailers", "priority": "u=9", "traceparent": "00-zz"},
]
_PROMPTS = ["messages", "system", "input", "instructions"]
_MOST_TEXT = 300  # characters, of at most four tokens each, in a template
_READERS = {
    "/v1/messages": anthropic_messages.read_request,
    "/v1/messages/count_tokens": partial(anthropic_messages.read_request, counting=True),
    "/v1/chat/completions": openai_chat.read_request,
    "/v1/responses": openai_responses.read_request,
}
# What no schema can say: a field that does not go with another.
_UNSAID = re.compile(
    r"has no result for the call|is no call just before it|two calls of the id|two of the name"
    r"|none of the tools|needs tools to choose|must come before the turn's text"
    r"|may be at most max_tokens|may not end with the answer's start|names token"
    r"|may not stand beside output_config"
)
_PLACES = 5  # of `tiny_server`, for sequences
_turn = itertools.count()


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Keep the engine's answers to one token; what is wrong with a body stays wrong."""
    names = _LIMITS.get(context.operation.path, [])
    if not isinstance(body, dict):
        return body
    given = [name for name in names if body.get(name) is not None]
    for name in given:
        is_number = isinstance(body[name], int | float) and not isinstance(body[name], bool)
        if is_number and body[name] > 1 and body[name] == int(body[name]):
            body[name] = 1
    if isinstance(least := body.get("min_tokens"), int) and least > 1:
        body["min_tokens"] = 1
    if names and not given and names != ["max_tokens"]:  # Messages asks for one itself
        body[names[0]] = 1
    return body


@schemathesis.hook
def filter_body(context: Any, body: Any) -> bool:
    """Leave out what no schema can say is wrong: what does not go together, or is too long."""
    path = context.operation.path
    if not isinstance(body, dict) or path not in _READERS:
        return True
    prompt = [body.get(name) for name in [*_PROMPTS, "tools"]]
    if path in _LIMITS and len(json.dumps(prompt, ensure_ascii=False)) > _MOST_TEXT:
        return False
    try:
        request = _READERS[path](json.dumps(body).encode())
        check_tokens(request, vocab_size=259)
    except ApiError as error:
        return not _UNSAID.search(error.message)
    return request.n <= _PLACES and _is_usable(request)


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """The same where bodies are not drawn, but made up to cover the schema."""
    return filter_body(context, case.body)


def _is_usable(request: ChatRequest) -> bool:
    """Whether its JSON schemas can be held to."""
    grammar = grammar_of(request)
    if grammar is None:
        return True
    read = {
        "lark": LLMatcher.grammar_from_lark,
        "json_schema": LLMatcher.grammar_from_json_schema,
    }[grammar.kind]
    try:
        return not LLMatcher(LLTokenizer("byte"), read(grammar.source), log_level=0).is_error()
    except ValueError:
        return False


@schemathesis.hook("before_call")
def add_odd_header(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Add headers that mean nothing here, or nothing at all, in turn."""
    odd = _ODD[next(_turn) % len(_ODD)]
    present = {name.lower() for name in case.headers or {}}
    case.headers.update({name: value for name, value in odd.items() if name not in present})


@schemathesis.check
def is_an_error_of_the_api(context: Any, response: Any, case: Any) -> None:
    """Whatever is refused says why, where the clients of the API look."""
    if response.status_code < 400 or case.method == "HEAD":
        return
    detail = response.json()["error"]
    assert isinstance(detail["message"], str)
    assert len(detail["message"]) > 10
    if detail.get("code") == "no_rule":
        assert "the nearest of 4 is rule" in detail["message"]
