"""Payloads of the three formats: ordinary ones by hand, odd and random ones by hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

__all__ = [
    "ENDPOINTS",
    "agent_turn",
    "any_payload",
    "chat",
    "junk",
    "marks_in",
    "messages",
    "plain",
    "responses",
    "sane",
    "text",
]

ENDPOINTS = ("anthropic.messages", "openai.chat", "openai.responses")
MARKS = ("cache_control", "prompt_cache_breakpoint")


def text(value: str, ttl: str | None = None, *, kind: str = "text") -> dict[str, Any]:
    """A block of text, marked in Anthropic's way with a `ttl`."""
    control = {"type": "ephemeral"} | ({} if ttl in (None, "5m") else {"ttl": ttl})
    return {"type": kind, "text": value} | ({} if ttl is None else {"cache_control": control})


def messages(*contents: Any, **fields: Any) -> dict[str, Any]:
    """A Messages payload, in which the user and the model speak in turn."""
    roles = ("user", "assistant")
    turns = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
    return {"model": "claude-opus-5", "max_tokens": 9, "messages": turns, **fields}


def chat(*turns: tuple[str, Any], **fields: Any) -> dict[str, Any]:
    """A Chat payload of pairs of role and content."""
    said = [{"role": role, "content": content} for role, content in turns]
    return {"model": "gpt-5.6", "messages": said, **fields}


def responses(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-5.6", "input": list(items), **fields}


def agent_turn(name: str, calls: int = 1) -> list[dict[str, Any]]:
    """The model's calls of a tool, and their results."""
    asked = [
        {"type": "tool_use", "id": f"{name}{i}", "name": "read", "input": {}} for i in range(calls)
    ]
    done = [
        {"type": "tool_result", "tool_use_id": f"{name}{i}", "content": "ok"} for i in range(calls)
    ]
    return [{"role": "assistant", "content": asked}, {"role": "user", "content": done}]


def plain(payload: Any, endpoint: str) -> Any:
    """`payload` without any mark, and with each text in the place of blocks written out."""
    fields = {name: value for name, value in payload.items() if name not in MARKS}
    if endpoint == "anthropic.messages":
        fields["system"] = _blocks(fields.get("system"), "text")
        fields["messages"] = [_said(one, "text") for one in fields["messages"]]
        fields["tools"] = [_unmarked(tool) for tool in fields.get("tools") or ()]
    elif endpoint == "openai.chat":
        fields["messages"] = [_said(one, "text") for one in fields["messages"]]
    else:
        given = fields["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        fields["input"] = [_said(one, "input_text") for one in items]
    return fields


def marks_in(value: Any) -> int:
    """How many marks a payload holds, wherever they are."""
    if isinstance(value, dict):
        return sum((name in MARKS) + marks_in(one) for name, one in value.items())
    return sum(map(marks_in, value)) if isinstance(value, list) else 0


def _said(message: Any, kind: str) -> Any:
    if not isinstance(message, dict):
        return message
    new = dict(message)
    for name in ("content", "output"):
        if name in new:
            new[name] = _blocks(new[name], kind)
    return new


def _blocks(content: Any, kind: str) -> Any:
    if isinstance(content, str):
        return [{"type": kind, "text": content}]
    return [_unmarked(block) for block in content] if isinstance(content, list) else content


def _unmarked(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    return {name: value for name, value in block.items() if name not in MARKS}


_WORDS = st.sampled_from(["", "a", "b", "ab", "long text", "日本", " "])
_TTLS = st.sampled_from([None, None, None, "5m", "1h"])
_OPENAI_TTLS = st.sampled_from([None, None, None, "", "30m"])


def _marked(block: dict[str, Any], ttl: str | None) -> dict[str, Any]:
    if ttl is None:
        return block
    return {**block, "cache_control": {"type": "ephemeral", "ttl": ttl}}


def _pointed(part: dict[str, Any], ttl: str | None) -> dict[str, Any]:
    if ttl is None:
        return part
    mark = {"mode": "explicit"} | ({"ttl": ttl} if ttl else {})
    return {**part, "prompt_cache_breakpoint": mark}


_IMAGE = {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}}
_DOCUMENT = {"type": "document", "source": {"type": "text", "data": "d"}}
_PLAIN_BLOCKS = st.one_of(
    _WORDS.map(text),
    st.just(_IMAGE),
    st.sampled_from([_DOCUMENT, {**_DOCUMENT, "citations": {"enabled": True}}]),
    _WORDS.map(lambda name: {"type": "tool_use", "id": "t", "name": name, "input": {"a": name}}),
    st.one_of(_WORDS, st.lists(st.one_of(_WORDS.map(text), st.just(_IMAGE)), max_size=2)).map(
        lambda content: {"type": "tool_result", "tool_use_id": "t", "content": content}
    ),
    st.just({"type": "thinking", "thinking": "hm", "signature": "s"}),
)
_BLOCKS = st.builds(_marked, _PLAIN_BLOCKS, _TTLS)
_TOOLS = st.builds(
    _marked,
    st.sampled_from(
        [
            {"name": "read", "input_schema": {}},
            {"name": "write", "input_schema": {"type": "object"}},
            {"type": "web_search_20250305", "name": "web_search"},
            {"name": "later", "input_schema": {}, "defer_loading": True},
        ]
    ),
    _TTLS,
)
_MESSAGES = st.builds(
    dict,
    role=st.sampled_from(["user", "assistant"]),
    content=st.one_of(_WORDS, st.lists(_BLOCKS, max_size=4)),
)
_ANTHROPIC = st.builds(
    lambda given, optional: {**given, **{n: v for n, v in optional.items() if v is not None}},
    st.builds(
        dict,
        model=st.sampled_from(["claude-opus-5", "claude-sonnet-5"]),
        messages=st.lists(_MESSAGES, max_size=4),
    ),
    st.builds(
        dict,
        tools=st.none() | st.lists(_TOOLS, max_size=3),
        system=st.none()
        | _WORDS
        | st.lists(st.builds(_marked, _WORDS.map(text), _TTLS), max_size=3),
        cache_control=st.sampled_from([None, None, {"type": "ephemeral"}, _marked({}, "1h")]).map(
            lambda given: given.get("cache_control", given) if given else None
        ),
        tool_choice=st.sampled_from([None, {"type": "auto"}]),
        speed=st.sampled_from([None, "fast"]),
    ),
)


def _parts(kind: str, image: str) -> st.SearchStrategy[Any]:
    plain = st.one_of(_WORDS.map(lambda said: text(said, kind=kind)), st.just({"type": image}))
    return st.one_of(_WORDS, st.lists(st.builds(_pointed, plain, _OPENAI_TTLS), max_size=3))


_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
_CHAT = st.builds(
    dict,
    model=st.just("gpt-5.6"),
    tools=st.lists(st.sampled_from([{"type": "function", "function": {"name": "f"}}]), max_size=2),
    messages=st.lists(
        st.one_of(
            st.builds(
                dict,
                role=st.sampled_from(["system", "developer", "user"]),
                content=_parts("text", "image_url"),
            ),
            st.builds(dict, role=st.just("assistant"), content=st.none() | _WORDS),
            st.builds(
                dict,
                role=st.just("assistant"),
                content=st.none() | _WORDS,
                tool_calls=st.just([_CALL]),
            ),
            st.builds(dict, role=st.just("tool"), tool_call_id=st.just("c"), content=_WORDS),
        ),
        max_size=5,
    ),
)
_ITEMS = st.one_of(
    st.builds(
        dict,
        role=st.sampled_from(["system", "developer", "user"]),
        content=_parts("input_text", "input_image"),
    ),
    st.builds(dict, type=st.just("message"), role=st.just("assistant"), content=_WORDS),
    st.just({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}),
    st.builds(
        dict,
        type=st.just("function_call_output"),
        call_id=st.just("c"),
        output=_parts("input_text", "input_image"),
    ),
)
_RESPONSES = st.builds(
    dict,
    model=st.just("gpt-5.6"),
    instructions=st.none() | _WORDS,
    input=_WORDS | st.lists(_ITEMS, max_size=5),
)
_SANE = dict(zip(ENDPOINTS, (_ANTHROPIC, _CHAT, _RESPONSES), strict=True))


def sane(endpoint: str) -> st.SearchStrategy[dict[str, Any]]:
    """Payloads of a known shape, with marks of the caller's own, not all of them legal."""
    return _SANE[endpoint]


any_payload = st.sampled_from(ENDPOINTS).flatmap(
    lambda endpoint: st.tuples(st.just(endpoint), sane(endpoint))
)

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=True)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "type role content text output cache_control prompt_cache_breakpoint ttl mode "
                "tool_calls defer_loading citations enabled name".split()
            ),
            inner
            | st.sampled_from(["text", "tool_result", "user", "ephemeral", "explicit", "image"]),
            max_size=4,
        )
    ),
    max_leaves=9,
)
junk = st.dictionaries(
    st.sampled_from(
        "model tools functions system messages input instructions cache_control text reasoning "
        "prompt_cache_options tool_choice thinking".split()
    ),
    _JSON,
    max_size=6,
)
"""Whatever JSON can say in the places where a prompt stands."""
