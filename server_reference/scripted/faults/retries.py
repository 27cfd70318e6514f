"""Faults in refusals: what they ask a client to do, in every right and wrong form.

Source: RFC 9110, section 10.2.3; Anthropic API reference, "Errors"; OpenAI API guide, "Error
codes".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from ..answers import ErrorAnswer
from ..compile import error_reply
from ..compile_errors import speaks_anthropic
from ..nearest import unknown
from ..ops import Script
from ..providers.rate_headers import Level, rate_headers
from ..providers.refusals import REFUSALS, refusal
from ..providers.retry_after import RETRY_AFTER_FORMS, retry_after
from ..request import Received
from .parameters import Count, Number, Seconds, Status
from .pieces import Reply
from .presets import Break, preset

__all__ = [
    "large_error_body",
    "no_requests_left",
    "quota_exceeded",
    "refused_encoding",
    "refused_status",
    "retry_after_date",
    "retry_after_empty",
    "retry_after_far_year",
    "retry_after_fraction",
    "retry_after_huge",
    "retry_after_infinite",
    "retry_after_ms",
    "retry_after_nan",
    "retry_after_negative",
    "retry_after_past",
    "retry_after_word",
    "should_not_retry",
    "should_retry",
    "surrogate_refused",
    "too_many_breakpoints",
    "ttl_order",
]

_Fields = Callable[[Received], Mapping[str, str]]
_OWN_WAIT = "Take it for absent and wait one's own time; the refusal itself is what is raised."
_NAN = "pydantic-ai#7065, PR#7066; hermes-agent#84738; crawlee-python PR#1995"
_DATES = "hermes-agent#84738; anthropic-sdk-python PR#1827"
_HUGE = "openai-python PR#3555; pi PR#4991, #4666, #4945; anthropic-sdk-python 2.14, run"
_GIVE_UP = "Beyond a limit do not wait at all: raise, with what was asked."


@preset(
    "RETRY",
    "openai-python 3.57 and anthropic-sdk-python 2.14, run; openai-python#821 (many clients at "
    "once)",
    right="Send again after 408, 409, 425, 429, 500, 502, 503, 504 and 529, with growing waits "
    "that vary; never after 501, 505 or another 4xx.",
)
def refused_status(
    status: Status = 429, retry_after: Seconds | None = None, type: str | None = None
) -> Break:
    """The call is refused with a status.

    Args:
        status: The HTTP status.
        retry_after: Seconds that `retry-after` names, rounded up; `None` leaves it out.
        type: The error's type; `None` takes what the status means to the API.
    """
    return _refused(status, _waiting("seconds", retry_after), type=type)


@preset("RETRY", _HUGE, right=_GIVE_UP)
def retry_after_huge(seconds: Seconds = 100_000.0, status: Status = 429) -> Break:
    """The server asks for a wait of more than a day.

    Args:
        seconds: The wait.
        status: The HTTP status.
    """
    return _refused(status, _waiting("seconds", seconds))


@preset("RETRY", _HUGE, right=_OWN_WAIT)
def retry_after_infinite(status: Status = 429) -> Break:
    """The wait is `inf`.

    Args:
        status: The HTTP status.
    """
    return _refused(status, _waiting("infinite", 0.0))


@preset("RETRY", _NAN, right=_OWN_WAIT)
def retry_after_nan(status: Status = 429) -> Break:
    """The wait is `nan`.

    Args:
        status: The HTTP status.
    """
    return _refused(status, _waiting("not_a_number", 0.0))


@preset("RETRY", _NAN, right=_OWN_WAIT)
def retry_after_negative(status: Status = 429) -> Break:
    """The wait is a negative number.

    Args:
        status: The HTTP status.
    """
    return _refused(status, _waiting("negative", 0.0))


@preset("RETRY", _NAN, right="No wait is asked for; one's own small one still keeps a storm away.")
def retry_after_past(status: Status = 429) -> Break:
    """The wait ends at a moment an hour ago.

    Args:
        status: The HTTP status.
    """
    return _refused(status, _waiting("past", 0.0))


@preset("RETRY", _DATES, right="Read all three forms of a date; wait until then.")
def retry_after_date(
    form: Literal["imf_fixdate", "rfc850", "asctime"] = "imf_fixdate",
    seconds: Seconds = 1.0,
    status: Status = 429,
) -> Break:
    """The wait ends at a date.

    Args:
        form: One of the three forms that HTTP has.
        seconds: How far ahead it lies, on the server's clock.
        status: The HTTP status.
    """
    return _refused(status, _waiting(form, seconds))


@preset("RETRY", _DATES, right=_OWN_WAIT)
def retry_after_far_year(status: Status = 429) -> Break:
    """The wait ends in the year 99999, which no calendar holds.

    Args:
        status: The HTTP status.
    """
    return _refused(status, _waiting("year_99999", 0.0))


@preset("RETRY", _DATES, right=_OWN_WAIT)
def retry_after_word(status: Status = 429) -> Break:
    """The wait is a word.

    Args:
        status: The HTTP status.
    """
    return _refused(status, _waiting("word", 0.0))


@preset("RETRY", _DATES, right=_OWN_WAIT)
def retry_after_empty(status: Status = 429) -> Break:
    """The wait is empty.

    Args:
        status: The HTTP status.
    """
    return _refused(status, _waiting("empty", 0.0))


@preset("RETRY", _DATES, right="Wait for the part of a second too, or a little longer.")
def retry_after_fraction(seconds: Seconds = 0.25, status: Status = 429) -> Break:
    """The wait has a decimal point.

    Args:
        seconds: The wait.
        status: The HTTP status.
    """
    return _refused(status, _waiting("fraction", seconds))


@preset(
    "RETRY",
    "openai-python and anthropic-sdk-python, both of which read it",
    right="The milliseconds count; the two are never added.",
)
def retry_after_ms(
    milliseconds: Count = 50, seconds: Seconds | None = 1.0, status: Status = 429
) -> Break:
    """The wait is told in milliseconds, beside other seconds.

    Args:
        milliseconds: What `retry-after-ms` says.
        seconds: What `retry-after` says, rounded up; `None` leaves it out.
        status: The HTTP status.
    """
    fields = _waiting("seconds", seconds)
    return _refused(
        status, lambda received: {**fields(received), "retry-after-ms": str(milliseconds)}
    )


@preset(
    "RETRY",
    "openai-python and anthropic-sdk-python, both of which obey it",
    right="Do not send again.",
)
def should_not_retry(status: Status = 429) -> Break:
    """`x-should-retry: false` stands beside a status that is sent again as a rule.

    Args:
        status: The HTTP status.
    """
    return _refused(status, lambda received: {"x-should-retry": "false"})


@preset(
    "RETRY",
    "openai-python and anthropic-sdk-python, both of which obey it",
    right="Send again, within the limits on attempts and on time.",
)
def should_retry(status: Status = 400) -> Break:
    """`x-should-retry: true` stands beside a status that is final as a rule.

    Args:
        status: The HTTP status.
    """
    return _refused(status, lambda received: {"x-should-retry": "true"})


@preset(
    "RETRY",
    "langchainjs#1929; codex PR#6340; agentao PR#283; anton PR#284; foyle#82",
    right="Final: waiting does not help, and the error says that it is about money.",
)
def quota_exceeded(error: str | None = None) -> Break:
    """A refusal is about money, and not about the pace.

    Args:
        error: Which: `insufficient_quota`, `credit_balance_exhausted`, `billing_error`, …;
            `None` takes `insufficient_quota`, or `enforced_spend_limit_reached` for Anthropic.
    """
    money = [name for name, kind in REFUSALS.items() if kind.is_money]
    if error is not None and error not in money:
        raise ValueError(f"quota_exceeded: {unknown('error about money', error, money)}")

    def refused(reply: Reply, received: Received) -> Script:
        own = "enforced_spend_limit_reached" if speaks_anthropic(received) else "insufficient_quota"
        return error_reply(refusal(error or own).answer(), received)

    return refused


@preset(
    "RETRY",
    "LLMock; aimock",
    right="Read both families of fields; slow down before the 429 comes.",
)
def no_requests_left(limit: Number = 50, reset: Seconds = 12.0) -> Break:
    """The reply says that it was the last one that the rate limit has room for.

    Args:
        limit: Requests per minute.
        reset: Seconds until they are there again.
    """

    def noted(reply: Reply, received: Received) -> Script:
        vendor: Literal["anthropic", "openai"] = (
            "anthropic" if speaks_anthropic(received) else "openai"
        )
        fields = rate_headers(
            vendor, {"requests": Level(limit, 0, reset)}, now=received.received_at
        )
        head = reply.head
        return reply.script(head=replace(head, fields=(*head.fields, *fields.items())))

    return noted


@preset(
    "CONN",
    "mistralai/client-python#532; openai-python 3.57, run",
    right="Read a bounded part of it and close before sending again; the connection is reused.",
)
def large_error_body(status: Status = 429, kib: Number = 256) -> Break:
    """A refusal has a long body, also where a stream was asked for.

    Args:
        status: The HTTP status.
        kib: Length in KiB of its message.
    """
    return _refused(status, lambda received: {}, message="a" * (kib * 1024))


@preset(
    "BODY",
    "ollama PR#14827",
    right="Send bodies as they are, unless the caller asks for more.",
)
def refused_encoding() -> Break:
    """A request whose body is compressed is refused with 415; any other is answered."""
    refuse = _refused(415, lambda received: {"accept-encoding": "identity"})

    def checked(reply: Reply, received: Received) -> Script:
        if received.header("content-encoding") in (None, "identity"):
            return reply.script()
        return refuse(reply, received)

    return checked


@preset(
    "UNI",
    "aider#3693, #3460; Router-Maestro PR#37; opencode#13988; kimi-cli#994; requests#6008",
    right="Never sent again; better, half characters are replaced before they are sent.",
)
def surrogate_refused() -> Break:
    """The request is refused with 400 for half a pair of surrogates in it."""
    message = "the body is no valid JSON: no low surrogate in string"
    return _refused(400, lambda received: {}, message=message)


@preset(
    "CACHE",
    "Anthropic.SDK#50; sub2api#176; avante.nvim PR#425",
    right="Count every mark before sending; drop the oldest ones of the messages.",
)
def too_many_breakpoints(found: Number = 5) -> Break:
    """The request is refused with 400 for more than four breakpoints.

    Args:
        found: How many the refusal names.
    """
    message = f"at most 4 blocks may have cache_control, and {found} have it"
    return _refused(400, lambda received: {}, message=message)


@preset(
    "CACHE",
    "claude-code-cache-fix#44; agno#8405, PR#8694; headroom#2939; gptel#977; "
    "vellum-assistant PR#22191, PR#23414",
    right="Order the times to live before sending; the caller's own marks are not overwritten.",
)
def ttl_order() -> Break:
    """The request is refused with 400, since a breakpoint of an hour stands after one of five
    minutes."""
    message = "a cache_control with ttl='1h' must not come after one with ttl='5m'"
    return _refused(400, lambda received: {}, message=message)


def _waiting(form: str, seconds: float | None) -> _Fields:
    assert form in RETRY_AFTER_FORMS
    if seconds is None:
        return lambda received: {}
    return lambda received: retry_after(seconds, form=form, now=received.received_at)


def _refused(
    status: int, fields: _Fields, *, type: str | None = None, message: str | None = None
) -> Break:
    def refused(reply: Reply, received: Received) -> Script:
        error = ErrorAnswer(status, type=type, message=message, headers=fields(received))
        return error_reply(error, received)

    return refused
