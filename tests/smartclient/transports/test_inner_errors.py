"""Our errors as those of a family, and of an SDK."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import anthropic
import httpx
import httpx2
import openai
import pytest

from smartclient._errors import ExchangeError
from smartclient.transports.inner import as_family

URL = "https://a.example/v1/messages?beta=true"


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def family(request):
    return request.param


def a_request(family):
    return family.Request("POST", URL, content=b"{}")


def an_error(kind="read", **facts):
    return ExchangeError("it broke", kind=kind, **facts)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("resolve", "ConnectError"),
        ("connect", "ConnectError"),
        ("connect_timeout", "ConnectTimeout"),
        ("proxy", "ProxyError"),
        ("tls", "ConnectError"),
        ("certificate", "ConnectError"),
        ("pool_timeout", "PoolTimeout"),
        ("write", "WriteError"),
        ("write_timeout", "WriteTimeout"),
        ("read", "ReadError"),
        ("read_timeout", "ReadTimeout"),
        ("closed", "RemoteProtocolError"),
        ("protocol", "RemoteProtocolError"),
        ("limit", "RemoteProtocolError"),
        ("unsupported", "UnsupportedProtocol"),
    ],
)
def test_our_error_is_the_familys_too(family, kind, name):
    request = a_request(family)

    error = as_family(an_error(kind, sent="part", reused=True), family, request)

    assert isinstance(error, getattr(family, name))
    assert isinstance(error, ExchangeError)
    assert (str(error), error.kind, error.sent, error.reused) == ("it broke", kind, "part", True)
    assert error.request is request


@pytest.mark.parametrize(
    "copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"]
)
def test_an_error_of_both_families_pickles(family, copied):
    error = as_family(an_error("closed", sent="all"), family, a_request(family))

    again = copied(error)

    assert type(again) is type(error)
    assert (str(again), again.kind, again.maybe_processed) == ("it broke", "closed", True)


@pytest.mark.parametrize("sdk", [anthropic, openai], ids=["anthropic", "openai"])
def test_an_error_can_be_an_sdks_too(family, sdk):
    """For an SDK that lets the errors of its HTTP client out of a stream."""
    error = as_family(an_error(), family, a_request(family), sdk=sdk.__name__)

    again = pickle.loads(pickle.dumps(error))

    assert isinstance(error, sdk.APIConnectionError)
    assert isinstance(error, family.ReadError)
    assert (type(again), again.message, again.kind) == (type(error), "it broke", "read")


def test_an_error_of_both_families_arrives_in_another_process(family):
    """One that has not loaded the family."""
    error = as_family(an_error("closed", sent="all"), family, a_request(family))
    code = "import pickle, sys; print(repr(pickle.loads(sys.stdin.buffer.read())))"

    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(error), capture_output=True, check=True
    )

    assert done.stdout.strip() == b"RemoteProtocolError('it broke')"


def test_an_error_that_was_pickled_says_that_its_request_is_gone(family):
    error = as_family(an_error(), family, a_request(family))

    with pytest.raises(RuntimeError, match="request property has not been set"):
        pickle.loads(pickle.dumps(error)).request  # noqa: B018 - the access raises
