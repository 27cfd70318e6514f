"""Errors say what happened, keep their facts, and travel between processes."""

from __future__ import annotations

import copy
import pickle
import traceback

import pytest

import smartclient
from smartclient import _errors
from smartclient._errors import (
    AuthenticationError,
    EventTooLargeError,
    ExchangeError,
    IncompleteStreamError,
    InvalidRequestError,
    MalformedReplyError,
    OverloadedError,
    RateLimitError,
    RefusedError,
    ServerError,
    SmartClientError,
    StatusError,
    status_error,
)


def a_status_error(kind=StatusError, **changes):
    facts = {"status": 529, "type": "overloaded_error", "code": None, "message": "busy"}
    return kind(**(facts | changes))


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(SmartClientError("plain"), id="root"),
        pytest.param(RefusedError("over budget"), id="refused"),
        pytest.param(ExchangeError("gone", kind="closed", sent="all", reused=True), id="exchange"),
        *[
            pytest.param(
                a_status_error(kind, request_id="r", attempts=3, hint="wait"), id=kind.__name__
            )
            for kind in (
                StatusError,
                InvalidRequestError,
                AuthenticationError,
                RateLimitError,
                OverloadedError,
                ServerError,
            )
        ],
        pytest.param(
            MalformedReplyError("html", status=200, content_type="text/html", excerpt=b"<"),
            id="malformed",
        ),
        pytest.param(EventTooLargeError(limit=10), id="too-large"),
        pytest.param(IncompleteStreamError("cut", partial={"so": "far"}), id="incomplete"),
    ],
)
@pytest.mark.parametrize(
    "copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"]
)
def test_every_error_pickles_with_its_facts(error, copied):
    error.add_note("seen here")

    again = copied(error)

    assert type(again) is type(error)
    assert (str(again), again.args, again.__dict__) == (str(error), error.args, error.__dict__)


def test_every_error_of_the_package_is_one_of_ours():
    kinds = [getattr(_errors, name) for name in _errors.__all__ if name.endswith("Error")]

    assert all(issubclass(kind, SmartClientError) for kind in kinds)


@pytest.mark.parametrize(
    ("status", "type_", "kind"),
    [
        pytest.param(301, None, InvalidRequestError, id="redirect"),
        pytest.param(400, None, InvalidRequestError, id="400"),
        pytest.param(404, "not_found_error", InvalidRequestError, id="404"),
        pytest.param(413, None, InvalidRequestError, id="413"),
        pytest.param(401, None, AuthenticationError, id="401"),
        pytest.param(403, None, AuthenticationError, id="403"),
        pytest.param(429, "overloaded_error", RateLimitError, id="status-before-type"),
        pytest.param(500, None, ServerError, id="500"),
        pytest.param(503, None, OverloadedError, id="503"),
        pytest.param(529, None, OverloadedError, id="529"),
        pytest.param(599, "odd", ServerError, id="unknown-5xx"),
        pytest.param(None, "overloaded_error", OverloadedError, id="overloaded-in-a-stream"),
        pytest.param(None, "rate_limit_error", RateLimitError, id="rate-limit-in-a-stream"),
        pytest.param(None, "permission_error", AuthenticationError, id="permission-in-a-stream"),
        pytest.param(None, "invalid_request_error", InvalidRequestError, id="invalid-in-a-stream"),
        pytest.param(None, "never heard of", ServerError, id="unknown-type"),
        pytest.param(None, None, ServerError, id="no-type"),
    ],
)
def test_the_class_follows_the_status_then_the_type(status, type_, kind):
    assert status_error(status, type_) is kind


def test_a_status_error_says_what_happened_and_what_to_do():
    error = a_status_error(attempts=4, request_id="req_1", hint="wait")

    assert str(error) == (
        "the provider answered 529 overloaded_error after 4 attempts: busy (wait) "
        "[request id req_1]"
    )


def test_an_error_inside_a_stream_has_no_status():
    error = a_status_error(status=None, type=None)

    assert str(error) == "the provider answered an error inside the stream: busy"


@pytest.mark.parametrize(("sent", "doubtful"), [("nothing", False), ("part", False), ("all", True)])
def test_only_a_whole_request_may_have_been_processed(sent, doubtful):
    assert ExchangeError("gone", kind="closed", sent=sent).maybe_processed is doubtful


def test_the_bound_of_an_event_is_told_in_bytes():
    assert "1,048,576 bytes" in str(EventTooLargeError(limit=1 << 20))


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ExchangeError("gone", kind="closed", sent="all"), "smartclient.ExchangeError"),
        (RefusedError("over"), "smartclient.RefusedError"),
        (smartclient.stores.StoreError("away"), "smartclient.stores.StoreError"),
        (smartclient.tokens.DownloadError("late"), "smartclient.tokens.DownloadError"),
    ],
)
def test_a_traceback_names_an_error_as_it_is_imported(error, name):
    assert traceback.format_exception_only(error)[0].startswith(f"{name}: ")
    assert type(pickle.loads(pickle.dumps(error))) is type(error)
