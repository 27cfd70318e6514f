"""Requests of every shape that the three formats take, and of some that they do not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

__all__ = ["BIG", "ODD"]

BIG = "a rule of some length " * 200
_TEXTS = st.sampled_from(
    ["", " ", "\n", "\u200b", "\x1c", "\u00a0", "\x00", "a", "日本", "\u2028", "𝒳" * 400]
)
_NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
_JSON = st.recursive(
    st.one_of(_TEXTS, _NUMBERS, st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner)),
    max_leaves=5,
)
_SELDOM = [None] * 8


def _with(name: str, blocks: Any, marks: list[Any]) -> Any:
    """Blocks of which some are marked by the caller."""
    seldom = st.sampled_from([*_SELDOM, *marks])
    return st.builds(lambda one, m: one if m is None else {**one, name: m}, blocks, seldom)


def _of(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def _text(kind: str) -> Any:
    return _TEXTS.map(lambda text: _of(kind, text=text))


def _said(roles: str, content: Any, *more: dict[str, Any]) -> Any:
    return st.builds(
        lambda role, said, beside: {"role": role, "content": said, **beside},
        st.sampled_from(roles.split()),
        content,
        st.sampled_from([{}, {}, *more]),
    )


# Messages.

_FIVE, _HOUR = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
_BLOCKS = st.one_of(
    _text("text"),
    st.lists(_text("text"), max_size=2).map(
        lambda inner: _of("tool_result", tool_use_id="t", content=inner)
    ),
    _TEXTS.map(lambda text: _of("tool_result", tool_use_id="t", content=text)),
    _JSON.map(lambda given: _of("tool_use", id="t", name="n", input={"a": given})),
    st.sampled_from(
        [
            _of("image", source=_of("url", url="https://a.example/i.png")),
            _of("image", source=_of("base64", media_type="image/png", data="A" * 9000)),
            _of("document", source=_of("text", data="d"), citations={"enabled": True}),
            _of("search_result", source="s", title="t", content=[_of("text", text="t")]),
            _of("thinking", thinking="hm", signature="s"),
            _of("redacted_thinking", data="x"),
            _of("server_tool_use", id="s", name="web_search", input={}),
            _of("web_search_tool_result", tool_use_id="s", content=[]),
            _of("compaction", content="c"),
            _of("of_next_year", x=1),
        ]
    ),
)
_CONTENT = st.one_of(_TEXTS, st.lists(_with("cache_control", _BLOCKS, [_FIVE, _HOUR]), max_size=4))
_TOOLS = st.sampled_from(
    [
        {"name": "read", "input_schema": {}, "description": "d" * 3000},
        {"name": "later", "input_schema": {}, "defer_loading": True},
        _of("web_search_20250305", name="web_search"),
        _of("bash_20250124", name="bash"),
        _of("mcp_toolset", mcp_server_name="m"),
    ]
)
_MESSAGES = st.builds(
    lambda system, said, more: {
        "model": "claude-opus-5",
        "max_tokens": 9,
        "system": system,
        "messages": said,
        **more,
    },
    st.one_of(st.just(BIG), _CONTENT),
    st.lists(_said("user assistant user assistant system", _CONTENT, {"id": "m"}), min_size=1),
    st.fixed_dictionaries(
        {},
        optional={
            "tools": st.lists(_with("cache_control", _TOOLS, [_FIVE, _HOUR]), max_size=3),
            "tool_choice": st.just({"type": "auto"}),
            "thinking": st.just({"type": "adaptive"}),
            "mcp_servers": st.just([_of("url", url="u", name="m")]),
            "container": st.just("c"),
            "context_management": st.just({"edits": []}),
            "metadata": _JSON,
            "cache_control": st.sampled_from([_FIVE, _HOUR]),
        },
    ),
)

# Chat and Responses.

_POINT = "prompt_cache_breakpoint"
_PARTS = st.one_of(
    _text("text"),
    st.sampled_from(
        [
            _of("image_url", image_url={"url": "u"}),
            _of("input_audio", input_audio={"data": "A", "format": "wav"}),
            _of("file", file={"file_id": "f"}),
            _of("refusal", refusal="no"),
        ]
    ),
)
_EXPLICIT = [{"mode": "explicit"}]
_CHAT_CONTENT = st.one_of(_TEXTS, st.none(), st.lists(_with(_POINT, _PARTS, _EXPLICIT), max_size=3))
_CHAT_TURNS = _said(
    "user assistant system developer tool function critic",
    _CHAT_CONTENT,
    {"name": "n"},
    {"tool_calls": [_of("function", id="t", function={"name": "f", "arguments": "{}"})]},
    {"function_call": {"name": "f", "arguments": "{}"}},
    {"tool_call_id": "t"},
    {"audio": {"id": "a"}},
)
_OPTIONS = st.sampled_from([None, {}, {"mode": "explicit"}, {"mode": "implicit"}, {"ttl": "30m"}])
_CHAT = st.builds(
    lambda said, more: {
        "model": "gpt-5.6",
        "messages": [{"role": "developer", "content": BIG}, *said],
        **more,
    },
    st.lists(_CHAT_TURNS, max_size=6),
    st.fixed_dictionaries(
        {},
        optional={
            "tools": st.just([_of("function", function={"name": "f"})]),
            "functions": st.just([{"name": "f"}]),
            "prompt_cache_options": _OPTIONS,
            "prompt_cache_key": st.just("k"),
            "logit_bias": _JSON,
        },
    ),
)
_INPUTS = st.one_of(
    _text("input_text"),
    _text("output_text"),
    st.sampled_from([_of("input_image", image_url="u"), _of("input_file", file_id="f")]),
)
_GIVEN = st.one_of(_TEXTS, st.lists(_with(_POINT, _INPUTS, _EXPLICIT), max_size=3))
_ITEMS = st.one_of(
    _said("user assistant system developer", _GIVEN, {"type": "message", "id": "m"}),
    st.builds(
        lambda kind, output: _of(kind, call_id="c", output=output),
        st.sampled_from(["function_call_output", "custom_tool_call_output", "shell_call_output"]),
        _GIVEN,
    ),
    st.sampled_from(
        [
            {"id": "i"},
            _of("item_reference", id="i"),
            _of("reasoning", id="r", summary=[], encrypted_content="x"),
            _of("function_call", call_id="c", name="f", arguments="{}"),
            _of("computer_call_output", call_id="c", output=_of("computer_screenshot")),
            _of("local_shell_call_output", id="i", output="o"),
        ]
    ),
)
_RESPONSES = st.builds(
    lambda given, more: {"model": "gpt-5.6", "input": given, **more},
    st.one_of(
        _TEXTS.map(lambda text: BIG + text),
        st.lists(_ITEMS, max_size=6).map(lambda all: [{"role": "developer", "content": BIG}, *all]),
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "instructions": _TEXTS,
            "tools": st.just([_of("function", name="f")]),
            "previous_response_id": st.just("r"),
            "prompt_cache_options": _OPTIONS,
        },
    ),
)
ODD = {
    "/v1/messages": _MESSAGES,
    "/v1/chat/completions": _CHAT,
    "/v1/responses": _RESPONSES,
}
"""By path, strategies for requests to it."""
