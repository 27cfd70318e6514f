"""Errors as the two providers word them, ready to be sent: limits, money, overload.

Source: Anthropic API reference, "Errors", and the error classes of anthropic-sdk-python 2;
OpenAI API guide, "Error codes".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from ..answers import ErrorAnswer
from ..nearest import unknown
from .callers import Vendor
from .retry_after import retry_after as retry_after_fields

__all__ = ["REFUSALS", "Refusal", "RefusalKind", "invalid", "refusal"]


class Refusal(NamedTuple):
    """An error reply.

    Attributes:
        status: HTTP status.
        body: JSON object in the shape of the API that was called.
        headers: Fields by lower-case name.
    """

    status: int
    body: dict[str, Any]
    headers: dict[str, str]

    def with_headers(self, more: Mapping[str, str]) -> Refusal:
        """The same error with further fields; its own win."""
        return self._replace(headers={**more, **self.headers})

    def answer(self) -> ErrorAnswer:
        """The error as a rule answers with it."""
        body = msgspec.json.encode(self.body)
        return ErrorAnswer(status=self.status, headers=self.headers, body=body)


@dataclass(frozen=True, slots=True)
class RefusalKind:
    """How an error looks by default.

    Attributes:
        type: `error.type`.
        code: OpenAI's `error.code`, Anthropic's `error.details.error_code`.
        is_money: Whether waiting does not help, whatever the status says.
    """

    vendor: Vendor
    status: int
    type: str
    code: str | None
    message: str
    is_money: bool = False


def _spent(vendor: Vendor, status: int, type_: str, code: str | None, message: str) -> RefusalKind:
    return RefusalKind(vendor, status, type_, code, message, is_money=True)


_QUOTA = "insufficient_quota"
_RATE = "rate_limit_error"

REFUSALS: Mapping[str, RefusalKind] = {
    # Anthropic
    "rate_limit_error": RefusalKind(
        "anthropic", 429, _RATE, None, "this request would exceed a rate limit of your workspace"
    ),
    "ramp_limit_exceeded": RefusalKind(
        "anthropic", 429, _RATE, "ramp_limit_exceeded", "usage grows faster than the ramp limit"
    ),
    "enforced_spend_limit_reached": _spent(
        "anthropic", 429, _RATE, "enforced_spend_limit_reached", "the monthly limit of the tier"
    ),
    "contract_spend_limit_reached": _spent(
        "anthropic", 429, _RATE, "contract_spend_limit_reached", "the contract's spend limit"
    ),
    "own_spend_limit_reached": _spent(
        "anthropic", 400, "invalid_request_error", None, "the spend limit that you set is reached"
    ),
    "billing_error": _spent(
        "anthropic", 402, "billing_error", None, "there is a problem with your billing"
    ),
    "linked_organization_spend_limit_reached": _spent(
        "anthropic",
        402,
        "billing_error",
        "linked_organization_spend_limit_reached",
        "the linked organization has no credit left",
    ),
    "overloaded_error": RefusalKind("anthropic", 529, "overloaded_error", None, "overloaded"),
    "api_error": RefusalKind("anthropic", 500, "api_error", None, "internal server error"),
    # OpenAI
    "rate_limit_exceeded": RefusalKind(
        "openai", 429, "requests", "rate_limit_exceeded", "rate limit reached"
    ),
    "slow_down": RefusalKind("openai", 429, _RATE, "slow_down", "traffic grew too fast"),
    "insufficient_quota": _spent(
        "openai", 429, _QUOTA, "insufficient_quota", "the current quota is used up"
    ),
    "credit_balance_exhausted": _spent(
        "openai", 429, _QUOTA, "credit_balance_exhausted", "the credit balance is used up"
    ),
    "organization_spend_limit_exceeded": _spent(
        "openai", 429, _QUOTA, "organization_spend_limit_exceeded", "the organization's limit"
    ),
    "project_spend_limit_exceeded": _spent(
        "openai", 429, _QUOTA, "project_spend_limit_exceeded", "the project's spend limit"
    ),
    "organization_usage_limit_exceeded": _spent(
        "openai", 429, _QUOTA, "organization_usage_limit_exceeded", "the usage limit is reached"
    ),
    "server_is_overloaded": RefusalKind(
        "openai", 503, "server_error", "server_is_overloaded", "the server is overloaded"
    ),
    "server_error": RefusalKind("openai", 500, "server_error", None, "internal server error"),
}
"""Name of an error → how it looks. The name is the provider's code or, without one, its type."""


def refusal(
    name: str,
    *,
    message: str | None = None,
    type: str | None = None,
    retry_after: float | None = None,
    form: str = "seconds",
    now: float = 0.0,
    should_retry: bool | None = None,
) -> Refusal:
    """One of `REFUSALS`, in the shape of its API.

    Args:
        message: `None` takes the ordinary one.
        type: `error.type` in place of the ordinary one.
        retry_after: Seconds to ask the client to wait; `None` asks for nothing.
        form: How that is said: a name in `RETRY_AFTER_FORMS`.
        now: Unix seconds, for the forms that name a date.
        should_retry: The field `x-should-retry`; `None` leaves it out.

    Raises:
        ValueError: No error has that name, or no form of retry-after.
    """
    kind = REFUSALS.get(name)
    if kind is None:
        raise ValueError(unknown("refusal", name, REFUSALS))
    headers = {} if retry_after is None else retry_after_fields(retry_after, form=form, now=now)
    if should_retry is not None:
        headers["x-should-retry"] = "true" if should_retry else "false"
    body = _body(
        kind.vendor, type or kind.type, message or kind.message, code=kind.code, param=None
    )
    return Refusal(kind.status, body, headers)


def invalid(
    vendor: Vendor, message: str, *, param: str | None = None, code: str | None = None
) -> Refusal:
    """A 400 for a request that breaks a rule.

    Args:
        param: Path of the wrong field; Anthropic's shape puts it before the message.
    """
    if vendor == "anthropic" and param:
        message = f"{param}: {message}"
    return Refusal(400, _body(vendor, "invalid_request_error", message, code=code, param=param), {})


def _body(
    vendor: Vendor, type_: str, message: str, *, code: str | None, param: str | None
) -> dict[str, Any]:
    if vendor == "openai":
        error = {"message": message, "type": type_, "param": param, "code": code}
        return {"error": error}
    described: dict[str, Any] = {"type": type_, "message": message}
    if code is not None:
        described["details"] = {"error_code": code}
    return {"type": "error", "error": described}
