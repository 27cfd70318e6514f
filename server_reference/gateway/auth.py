"""Who is calling: an API key names a tenant."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from ..api.errors import ApiError
from ..credentials import bearer, offered_keys

__all__ = ["ADMIN_HEADER", "NOBODY", "AdminKey", "ApiKeys"]

_PRINTABLE = re.compile(r"[!-~]+")

NOBODY = "default"
"""The tenant of all calls while no key is configured."""


ADMIN_HEADER = "x-admin-key"
"""Carries the admin's key, which may also come as `Authorization: Bearer`."""

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


class ApiKeys:
    """The keys that are let in.

    Args:
        keys: Keys, each with the tenant that it names; a list names them `tenant-1` and so
            on. Without any, every call is let in.

    Raises:
        ValueError: A key is empty, stands there twice, or can be sent in no header.
    """

    def __init__(self, keys: Mapping[str, str] | Sequence[str] | None) -> None:
        if isinstance(keys, str):
            raise ValueError("api_keys must be a list of keys or a mapping, not one string")
        if not isinstance(keys, Mapping | Sequence | None):
            raise ValueError(f"api_keys must be a list or a mapping, not {type(keys).__name__}")
        if not isinstance(keys, Mapping):
            named = list(keys or ())
            if len(set(named)) < len(named):
                raise ValueError("a key stands twice in api_keys; each names one tenant")
            keys = {key: f"tenant-{at}" for at, key in enumerate(named, 1)}
        if not all(keys):
            raise ValueError("a key in api_keys is empty; leave it out to let everyone in")
        if not all(isinstance(text, str) for pair in keys.items() for text in pair):
            raise ValueError("a key or a tenant in api_keys is no string; give both as text")
        if not all(_PRINTABLE.fullmatch(key) for key in keys):
            raise ValueError(
                "a key in api_keys has a space or a character that no header carries for sure; "
                "use ASCII letters, digits and punctuation"
            )
        self._tenants = [(key.encode(), tenant) for key, tenant in keys.items()]

    def tenant(self, headers: Mapping[str, str]) -> str:
        """The caller's tenant.

        A key comes as `x-api-key`, as a bearer token, or in another of the headers of
        `credentials.KEY_HEADERS`. Some clients send two, with something else in one of them;
        either is enough.

        Raises:
            ApiError: No key that is known came.
        """
        if not self._tenants:
            return NOBODY
        offered = offered_keys(headers)
        found = [tenant for key in offered for tenant in self._matching(key)]
        if found:
            return found[0]
        if offered:
            raise ApiError("unauthenticated", "the API key is not known here; check it")
        raise ApiError(
            "unauthenticated",
            "no API key came; send it as x-api-key or as Authorization: Bearer",
        )

    def _matching(self, offered: str) -> list[str]:
        # Every key is compared in full, so that the time taken says nothing about any.
        given = offered.encode("utf-8", "surrogateescape")
        return [tenant for key, tenant in self._tenants if hmac.compare_digest(given, key)]


class AdminKey:
    """Who may look into the engine: at `/debug/`, where other tenants' requests are seen.

    With a key, whoever sends it. Without one, where no API keys are asked for either, whoever
    calls from this machine itself; else nobody.

    Args:
        key: The admin's; `None`: there is none.
        api_keys: The keys of tenants, none of which may be it.

    Raises:
        ValueError: It is empty, one of `api_keys`, or can be sent in no header.
    """

    def __init__(
        self, key: str | None, *, api_keys: Mapping[str, str] | Sequence[str] | None = None
    ) -> None:
        if key is not None and not (isinstance(key, str) and _PRINTABLE.fullmatch(key)):
            raise ValueError(
                "admin_key must be text of ASCII letters, digits and punctuation, at least one; "
                "leave it out to have none"
            )
        if key is not None and key in (api_keys or ()):
            raise ValueError("admin_key is one of api_keys too; a tenant would see the others")
        self._key = key
        self._has_tenants = bool(api_keys)

    def check(self, headers: Mapping[str, str], peer: str | None) -> bool:
        """Let the caller in: true for the admin, false for one from this machine.

        Args:
            peer: The address that the call came from.

        Raises:
            ApiError: Neither.
        """
        if self._key is not None:
            given = headers.get(ADMIN_HEADER) or bearer(headers.get("authorization")) or ""
            offered = given.encode("utf-8", "surrogateescape")
            if hmac.compare_digest(offered, self._key.encode()):
                return True
            said = "is not known here; check it" if given else f"did not come; send {ADMIN_HEADER}"
            raise ApiError("unauthenticated", f"the admin key {said}")
        if self._has_tenants:
            raise ApiError(
                "unauthenticated",
                "this shows what all tenants do, so it needs an admin key, and the server has "
                "none; start it with admin_key",
            )
        if not _is_loopback(peer) or any(name in headers for name in _FORWARDED):
            raise ApiError(
                "unauthenticated",
                "without an admin key this is shown to callers on the server's machine only; "
                "start the server with admin_key",
            )
        return False


def _is_loopback(peer: str | None) -> bool:
    try:
        address = ip_address((peer or "").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
