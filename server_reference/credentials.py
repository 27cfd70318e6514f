"""Which names carry credentials: one registry for who lets keys in and for who must not show them.

A test server's journal that knew fewer names than its clients used has kept real keys in plain
text (aimock, changelog 1.38), so what the auth check reads and what is redacted is one list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

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

_TAIL = re.compile(
    r"(?:^|[-_])(?:api[-_]?key|secret|password|client[-_]secret|private[-_]?key|secret[-_]key"
    r"|(?:auth|access|refresh|security|session|bearer)[-_]?token)$"
)
_HINTS = (b"key", b"secret", b'token"', b"token\\", b"passw", b"auth", b"cookie")
"""One of these is in every body that holds a secret field, and in few others."""
_SHORTEST = 8
_USER = re.compile(r"(?<=://)[^/@?#]*@")
_MEMBER = re.compile(rb'"(?P<name>[\w-]{2,40})"\s*:\s*"(?P<value>(?:[^"\\]|\\.)*+)', re.DOTALL)
_INNER = re.compile(rb'\\"(?P<name>[\w-]{2,40})\\"\s*:\s*\\"(?P<value>[^"\\]*+)')
"""A member of an object that is text in another one, such as a tool call's arguments."""


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
    return name in HEADERS or _TAIL.search(name) is not None


def is_secret_parameter(name: str) -> bool:
    """Whether a query parameter's value is a secret, by its name in any case."""
    name = name.lower()
    return name in QUERY or _TAIL.search(name) is not None


def is_secret_field(name: str) -> bool:
    """Whether the text of a JSON field is a secret, by its name in any case."""
    name = name.lower()
    return name in FIELDS or _TAIL.search(name) is not None


def secrets_in(headers: Iterable[tuple[str, str]], target: str = "") -> list[str]:
    """The values themselves, longest first, to be removed wherever else they show up.

    Texts of fewer than 8 characters are left out: they would blot out ordinary words.
    """
    found: set[str] = set()
    for name, text in headers:
        if is_secret_header(name):
            found.update(_values(name.lower(), text))
    if "?" in target:
        found.update(text for name, text in _parameters(target) if is_secret_parameter(name))
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
        for secret in secrets:
            if secret in value:
                value = value.replace(secret, REDACTED)
        shown.append((name, value))
    return tuple(shown)


def redact_target(target: str) -> str:
    """A request's target without the secrets of its query and its user part."""
    if "@" in target:
        target = _USER.sub(f"{REDACTED}@", target)
    path, mark, query = target.partition("?")
    if not mark:
        return target
    parts = [
        f"{name}={REDACTED}" if value and is_secret_parameter(name) else f"{name}{equals}{value}"
        for name, equals, value in (part.partition("=") for part in query.split("&"))
    ]
    return f"{path}?{'&'.join(parts)}"


def redact_body(body: bytes, secrets: Sequence[str] = ()) -> bytes:
    """A body without the texts of its secret JSON fields, and without `secrets` anywhere.

    It may be cut off in the middle of a text.
    """
    for secret in secrets:
        body = body.replace(secret.encode("utf-8", "surrogateescape"), REDACTED.encode())
    lower = body.lower()
    if not any(hint in lower for hint in _HINTS):
        return body
    return _INNER.sub(_member, _MEMBER.sub(_member, body))


def redact_text(text: str, secrets: Sequence[str]) -> str:
    """A text without `secrets`."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text


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
    for part in target.partition("?")[2].split("&"):
        name, _, value = part.partition("=")
        yield name, value


def _member(match: re.Match[bytes]) -> bytes:
    if not match["value"] or not is_secret_field(match["name"].decode("utf-8", "replace")):
        return match[0]
    return match[0][: match.start("value") - match.start()] + REDACTED.encode()
