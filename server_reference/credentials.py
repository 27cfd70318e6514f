"""Which names carry credentials: one registry for who lets keys in and for who must not show them.

A test server's journal that knew fewer names than its clients used has kept real keys in plain
text (aimock, changelog 1.38), so what the auth check reads and what is redacted is one list. A
key that vendors make is known by its shape too, wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from urllib.parse import quote, unquote

__all__ = [
    "FIELDS",
    "HEADERS",
    "KEY_HEADERS",
    "QUERY",
    "REDACTED",
    "bearer",
    "is_secret_field",
    "is_secret_header",
    "is_secret_parameter",
    "offered_keys",
    "redact_body",
    "redact_headers",
    "redact_target",
    "redact_text",
    "secrets_in",
]

REDACTED = "[redacted]"

KEY_HEADERS = ("x-api-key", "authorization", "api-key", "x-goog-api-key", "xi-api-key")
"""Where an API key is looked for, in this order; `authorization` with the scheme `Bearer`."""

HEADERS = frozenset(KEY_HEADERS) | frozenset(
    "proxy-authorization cookie set-cookie x-auth-token x-access-token x-amz-security-token "
    "x-goog-iam-authorization-token x-csrf-token "
    "ocp-apim-subscription-key helicone-auth portkey-api-key x-portkey-api-key".split()
)
"""Headers whose value is never shown; names in small letters."""

QUERY = frozenset(
    "key api_key api-key apikey access_token refresh_token id_token token auth password secret "
    "client_secret code sig signature subscription-key x-amz-signature x-amz-credential "
    "x-amz-security-token x-goog-signature x-goog-credential".split()
)
"""Parameters of a query whose value is never shown; names in small letters."""

FIELDS = (HEADERS - {"cookie"}) | frozenset(
    "api_key apikey access_token refresh_token id_token auth_token authorization_token "
    "client_secret secret_key private_key aws_secret_access_key aws_session_token "
    "password passwd".split()
)
"""Fields of a JSON body whose text is never shown; names in small letters."""

_API_KEY = r"api[-_]?(?:key|token)|private[-_]?key|(?:secret[-_])?access[-_]key(?:[-_]id)?"
_TOKEN = r"(?:auth|access|refresh|security|session|bearer|hf|github)[-_]?token"
_TAIL = re.compile(rf"(?:^|[-_])(?:{_API_KEY}|secret(?:[-_]key)?|password|credentials?|{_TOKEN})$")
_ANY_TAIL = re.compile(
    rf"(?:^|[-_.])(?:{_API_KEY}|key|token|secret|password|passwd|pwd|jwt|assertion|signature"
    r"|bearer|dpop|auth(?:entication|orization)?|credentials?)$"
)
"""Of headers and of parameters; a body has too many tokens and keys that are none."""
_NO_SECRET = re.compile(
    r"(?:^|[-_])(?:idempotency|cache|surrogate|sort|partition|routing|affinity)[-_]key$"
    r"|(?:^|[-_])(?:page|next|continuation|sync|pagination)[-_]token$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HINTS = (
    *(b"key", b"secret", b'token"', b"token\\", b"token'"),
    *(b"passw", b"auth", b"cookie", b"credential"),
)
"""One of these is in every body that holds a secret field, and in few others."""
_SHORTEST = 8
_USER = re.compile(r"(?<=://)[^/@?#\s]*@")
_HOST_USER = re.compile(r"^[^/@\s]*@")
_QUERY_PART = re.compile(r"([^&;=]+)=([^&;]+)")
_MEMBER = re.compile(rb'"(?P<name>[\w-]{2,40})"\s*:\s*"(?P<value>(?:[^"\\]|\\.)*+)', re.DOTALL)
_INNER = re.compile(rb'\\+"(?P<name>[\w-]{2,40})\\+"\s*:\s*\\+"(?P<value>[^"\\]*+)')
"""A member of an object that is text in another one, such as a tool call's arguments."""
_LIST = re.compile(
    rb'"(?P<name>[\w-]{2,40})s"\s*:\s*\[\s*"(?P<value>(?:[^"\\]|\\.|"\s*,\s*")*+)', re.DOTALL
)
_SINGLE = re.compile(rb"'(?P<name>[\w-]{2,40})'\s*:\s*'(?P<value>[^'\\]*+)")
_PART = re.compile(rb'name="(?P<name>[\w-]{2,40})"(?:\r\n[^\r\n]+)*\r\n\r\n(?P<value>[^\r\n]+)')
_FIELD = re.compile(rb"(?:\A|[?&;])(?P<name>[\w.%-]{2,60})=(?P<value>[^&;\s\"'<>\\#]{8,}+)")
"""Of a form, or in the query of an address that stands in a text."""
_SHAPES = {
    "sk-": r"(?=[A-Za-z_-]*[0-9])[\w-]{20,}",
    "AIza": r"[\w-]{30,}",
    **dict.fromkeys("gsk_ hf_ r8_ gho_ ghp_ ghs_ ghu_ github_pat_".split(), r"\w{20,}"),
    **dict.fromkeys("xai- pplx- glpat- nvapi-".split(), r"[\w-]{20,}"),
    **dict.fromkeys(("AKIA", "ASIA"), r"[A-Z0-9]{16}"),
    r"ya29\.": r"[\w-]{20,}",
    "eyJ": r"[\w-]{5,}\.eyJ[\w-]{5,}\.[\w-]{8,}",
}
"""What a vendor's key begins with → what follows."""
_STARTS = [start.replace("\\", "").encode() for start in _SHAPES]
_LONG = 2048  # a search for each beginning is faster from here on
_SHAPE = re.compile(
    # Each begins with a literal: that is looked for quickly.
    "|".join(f"{start}(?<![A-Za-z0-9]{start}){rest}" for start, rest in _SHAPES.items()),
    re.ASCII,
)
_BEARER = re.compile(r"earer [\w.~+/-]{16,}=*", re.ASCII)
_SHAPE_BYTES, _BEARER_BYTES = (re.compile(one.pattern.encode()) for one in (_SHAPE, _BEARER))
_BEARER_HIDDEN = f"earer {REDACTED}"


def offered_keys(headers: Mapping[str, str]) -> list[str]:
    """The API keys that a request came with, in the order of `KEY_HEADERS`, without empty ones."""
    values = {name: headers.get(name) for name in KEY_HEADERS}
    values["authorization"] = bearer(values["authorization"])
    return [value for value in values.values() if value]


def bearer(header: str | None) -> str | None:
    """The token of an `authorization` header; `None` when it has another scheme."""
    scheme, _, token = (header or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


@lru_cache(maxsize=1024)
def is_secret_header(name: str) -> bool:
    """Whether a header's value is a secret, by its name in any case."""
    name = name.lower()
    return name in HEADERS or _is_secret(name)


@lru_cache(maxsize=1024)
def is_secret_parameter(name: str) -> bool:
    """Whether a query parameter's value is a secret, by its name in any case."""
    name = unquote(name).lower()
    return name in QUERY or _is_secret(name)


@lru_cache(maxsize=1024)
def is_secret_field(name: str) -> bool:
    """Whether the text of a JSON field is a secret, by its name in any case."""
    parted = _CAMEL.sub("_", name).lower()
    return not FIELDS.isdisjoint((name.lower(), parted)) or _TAIL.search(parted) is not None


def secrets_in(headers: Iterable[tuple[str, str]], target: str = "") -> list[str]:
    """The values themselves, longest first, to be removed wherever else they show up.

    Texts of fewer than 8 characters are left out: they would blot out ordinary words.
    """
    found: set[str] = set()
    for name, text in headers:
        if is_secret_header(name):
            found.update(_values(name.lower(), text))
    if "?" in target:
        texts = [text for name, text in _parameters(target) if is_secret_parameter(name)]
        found.update(texts, map(unquote, texts))
    found.update([quote(one, safe="") for one in found if not one.isalnum()])
    return sorted((one for one in found if len(one) >= _SHORTEST), key=len, reverse=True)


def redact_headers(
    headers: Iterable[tuple[str, str]], secrets: Sequence[str] = ()
) -> tuple[tuple[str, str], ...]:
    """Headers with `[redacted]` for each secret; the scheme of an authorization stays.

    Args:
        secrets: Texts to remove from all other values.
    """
    shown = []
    for name, value in headers:
        if is_secret_header(name):
            value = _shown(name, value)
        elif "://" in value:
            value = redact_target(value)
        elif "@" in value and name.lower() == "host":
            value = _HOST_USER.sub(f"{REDACTED}@", value)
        # No key is shorter, and most headers are.
        shown.append((name, redact_text(value, secrets) if len(value) >= _SHORTEST else value))
    return tuple(shown)


def redact_target(target: str) -> str:
    """A request's target, or any address, without the secrets of its query and its user part."""
    if "@" in target:
        target = _USER.sub(f"{REDACTED}@", target)
    path, mark, query = target.partition("?")
    if query:
        query = _QUERY_PART.sub(
            lambda one: f"{one[1]}={REDACTED}" if is_secret_parameter(one[1]) else one[0], query
        )
    return redact_text(f"{path}{mark}{query}")


def redact_body(body: bytes, secrets: Sequence[str] = ()) -> bytes:
    """A body without the texts of its secret fields, and without `secrets` anywhere.

    Fields of JSON, of a form, or of addresses in a text. It may be cut off in the middle of one.
    """
    for secret in secrets:
        body = body.replace(secret.encode("utf-8", "surrogateescape"), REDACTED.encode())
    if len(body) < _LONG or any(start in body for start in _STARTS):
        body = _SHAPE_BYTES.sub(REDACTED.encode(), body)
    body = _BEARER_BYTES.sub(_BEARER_HIDDEN.encode(), body)
    if b"=" in body:
        body = _PART.sub(_member, _FIELD.sub(_parameter, body))
    lower = body.lower()
    if not any(hint in lower for hint in _HINTS):
        return body
    body = _MEMBER.sub(_member, body)
    if b'\\"' in body:
        body = _INNER.sub(_member, body)
    if b"'" in body:
        body = _SINGLE.sub(_member, body)
    return _LIST.sub(_member, body) if b"[" in body else body


def redact_text(text: str, secrets: Sequence[str] = ()) -> str:
    """A text without `secrets`, and without what has the shape of a vendor's key."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return _BEARER.sub(_BEARER_HIDDEN, _SHAPE.sub(REDACTED, text))


def _is_secret(name: str) -> bool:
    return _ANY_TAIL.search(name) is not None and _NO_SECRET.search(name) is None


def _values(name: str, text: str) -> Iterator[str]:
    """The secrets of a header: what follows its scheme, or each cookie's value."""
    if name in ("cookie", "set-cookie"):
        for part in text.split(";")[: 1 if name == "set-cookie" else None]:
            yield part.partition("=")[2].strip()
        return
    first, space, rest = text.strip().partition(" ")
    yield rest.strip() if space else first


def _shown(name: str, value: str) -> str:
    if not value:
        return value
    scheme, space, _ = value.partition(" ")
    keeps_scheme = space and name.lower().endswith("authorization") and scheme.isalpha()
    return f"{scheme} {REDACTED}" if keeps_scheme else REDACTED


def _parameters(target: str) -> Iterator[tuple[str, str]]:
    for part in re.split("[&;]", target.partition("?")[2]):
        name, _, value = part.partition("=")
        yield name, value


def _member(match: re.Match[bytes]) -> bytes:
    is_secret = match["value"] and is_secret_field(match["name"].decode("utf-8", "replace"))
    return _hidden(match) if is_secret else match[0]


def _parameter(match: re.Match[bytes]) -> bytes:
    is_secret = is_secret_parameter(match["name"].decode("utf-8", "replace"))
    return _hidden(match) if is_secret else match[0]


def _hidden(match: re.Match[bytes]) -> bytes:
    return match[0][: match.start("value") - match.start()] + REDACTED.encode()
