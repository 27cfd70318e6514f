"""
Every error this package raises:

* SmartClientError
  x RefusedError              the call was not sent
    - BudgetExceededError     it could use more than its budget has left
  x ExchangeError             the call was sent, or tried, and no reply came, or not all of it
  x StatusError               the provider answered, and its answer is an error
    - InvalidRequestError     3xx, 400, 404, 413, 422: sending it again cannot help
    - AuthenticationError     401, 403
    - RateLimitError          429
    - OverloadedError         503, 529
    - ServerError             any other 5xx
  x MalformedReplyError       the answer is not what its format promises
  x EventTooLargeError        one event of a stream crosses the bound set for it
  x IncompleteStreamError     the stream ended before its terminal event
  x DownloadError             of `tokens`: a vocabulary could not be fetched
  x StoreError                of `stores`: shared state cannot be reached

Facts are attributes, so that nobody parses a message. Every error pickles.
"""

from __future__ import annotations

from typing import Any, Literal

__all__ = [
    "AuthenticationError",
    "BudgetExceededError",
    "EventTooLargeError",
    "ExchangeError",
    "ExchangeKind",
    "IncompleteStreamError",
    "InvalidRequestError",
    "MalformedReplyError",
    "OverloadedError",
    "RateLimitError",
    "RefusedError",
    "Sent",
    "ServerError",
    "SmartClientError",
    "StatusError",
    "status_error",
]

ExchangeKind = Literal[
    "resolve",  # the host name has no address
    "connect",  # no connection: refused, unreachable, reset
    "connect_timeout",
    "proxy",  # a proxy refuses to lead there
    "tls",  # the handshake failed
    "certificate",  # the server's certificate is not trusted
    "pool_timeout",  # no connection became free
    "write",
    "write_timeout",
    "read",  # the connection broke while the reply was read
    "read_timeout",
    "first_event_timeout",  # the three limits of a call that no stage knows
    "idle_timeout",
    "total_timeout",
    "closed",  # the server closed before a complete reply
    "refused",  # HTTP/2 says that the request was not processed
    "protocol",  # the server's bytes are not HTTP
    "limit",  # the reply crosses one of our bounds
    "unsupported",  # the call asks for what this connection cannot carry
]

Sent = Literal["nothing", "part", "all"]
"""How much of the request had been written when the failure came."""


class SmartClientError(Exception):
    """The root of all errors of this package.

    Attributes:
        partial: What had come of a stream that failed: the typed message so far.
    """

    partial: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


def _restore(
    kind: type[SmartClientError], args: tuple[Any, ...], facts: dict[str, Any]
) -> SmartClientError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class RefusedError(SmartClientError):
    """The call was not sent, because a rule of ours forbids it.

    Attributes:
        status: The HTTP status that the refusal has under an SDK.
        hint: What to do about it.
    """

    status = 400
    hint = ""


class BudgetExceededError(RefusedError):
    """The call could use more than its budget has left.

    Attributes:
        budget: Name of the budget.
        tag: Whose account it is, where each tag has its own.
        meter: `dollars`, `tokens` or `requests`.
        limit: What the budget allows in a window.
        spent: What calls have come to.
        held: What calls that are still out may come to.
        asked: What this call may use: its input and the longest answer to it.
        resets_at: When the window ends, in Unix seconds; `None`: never.
    """

    status = 402

    def __init__(
        self,
        message: str,
        *,
        budget: str,
        meter: str,
        limit: float,
        spent: float,
        held: float,
        asked: float,
        tag: str | None = None,
        resets_at: float | None = None,
        hint: str = "",
    ) -> None:
        self.budget, self.tag, self.meter, self.limit = budget, tag, meter, limit
        self.spent, self.held, self.asked, self.resets_at = spent, held, asked, resets_at
        self.hint = hint
        super().__init__(f"{message} ({hint})" if hint else message)


class ExchangeError(SmartClientError):
    """No reply came, or it broke off.

    Attributes:
        kind: What failed.
        sent: How much of the request had been written.
        origin: Scheme, host and port that the call went to.
        reused: Whether the connection was open before the call.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ExchangeKind,
        sent: Sent = "nothing",
        origin: str = "",
        reused: bool = False,
    ) -> None:
        self.kind, self.sent, self.origin, self.reused = kind, sent, origin, reused
        super().__init__(message)

    @property
    def maybe_processed(self) -> bool:
        """Whether the server may have done the work, and charged for it."""
        return self.sent == "all"


class StatusError(SmartClientError):
    """The provider answered with an error.

    Attributes:
        status: HTTP status; `None` for an error inside a stream that began well.
        type: The provider's error type, such as `overloaded_error`.
        code: The provider's code beside the type, or `None`.
        message: The provider's own sentence.
        request_id: What to quote to the provider.
        attempts: How often the call was sent.
        retry_after: Seconds that the provider asks to wait; `None` where it names none.
    """

    def __init__(
        self,
        *,
        status: int | None,
        type: str | None,
        code: str | None,
        message: str,
        request_id: str | None = None,
        attempts: int = 1,
        hint: str = "",
        retry_after: float | None = None,
    ) -> None:
        self.retry_after = retry_after
        self.status, self.type, self.code, self.message = status, type, code, message
        self.request_id, self.attempts, self.hint = request_id, attempts, hint
        what = f"{status}" if status is not None else "an error inside the stream"
        name = f" {type}" if type else ""
        tries = f" after {attempts} attempts" if attempts > 1 else ""
        quoted = f" [request id {request_id}]" if request_id else ""
        advice = f" ({hint})" if hint else ""
        advice += f" (it asks to wait {round(retry_after, 1):,g} s)" if retry_after else ""
        super().__init__(f"the provider answered {what}{name}{tries}: {message}{advice}{quoted}")


class InvalidRequestError(StatusError):
    """The provider refuses this request as it is; sending it again cannot help."""


class AuthenticationError(StatusError):
    """The key is missing, wrong, or not allowed to do this."""


class RateLimitError(StatusError):
    """Too many requests or tokens, or no money left; `type` and `code` say which."""


class OverloadedError(StatusError):
    """The provider has no capacity at the moment."""


class ServerError(StatusError):
    """The provider failed on its side."""


_BY_STATUS: dict[int, type[StatusError]] = {
    401: AuthenticationError,
    403: AuthenticationError,
    429: RateLimitError,
    503: OverloadedError,
    529: OverloadedError,
}

_BY_TYPE: dict[str, type[StatusError]] = {
    "authentication_error": AuthenticationError,
    "permission_error": AuthenticationError,
    "rate_limit_error": RateLimitError,
    "rate_limit_exceeded": RateLimitError,
    "insufficient_quota": RateLimitError,
    "overloaded_error": OverloadedError,
    "server_is_overloaded": OverloadedError,
    "invalid_request_error": InvalidRequestError,
    "not_found_error": InvalidRequestError,
}


def status_error(status: int | None, type: str | None) -> type[StatusError]:
    """The class for an error status or a redirect, or for an error in a stream by its type."""
    if status is not None and status >= 300:
        by_range = ServerError if status >= 500 else InvalidRequestError
        return _BY_STATUS.get(status, by_range)
    return _BY_TYPE.get(type or "", ServerError)


class MalformedReplyError(SmartClientError):
    """A success whose body is not what its format promises.

    Attributes:
        status: HTTP status of the reply.
        content_type: What the reply says it is.
        excerpt: Its first bytes, at most 200.
    """

    def __init__(self, message: str, *, status: int, content_type: str, excerpt: bytes) -> None:
        self.status, self.content_type, self.excerpt = status, content_type, excerpt
        super().__init__(message)


class EventTooLargeError(SmartClientError):
    """One event of a stream crosses the bound set for it.

    Attributes:
        limit: The bound, in bytes.
    """

    def __init__(self, *, limit: int) -> None:
        self.limit = limit
        super().__init__(
            f"an event of the stream is larger than {limit:,} bytes, or its blank line never "
            "came; raise max_event_bytes if events of this size are expected"
        )


class IncompleteStreamError(SmartClientError):
    """The stream ended before its terminal event, so the answer may be cut."""

    def __init__(self, message: str, *, partial: Any = None) -> None:
        self.partial = partial
        super().__init__(message)


for _error in [one for one in globals().values() if isinstance(one, type)]:
    if issubclass(_error, SmartClientError):
        _error.__module__ = "smartclient"  # where users know it from, in tracebacks too
