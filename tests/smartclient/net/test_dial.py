"""The steps to a connection."""

from __future__ import annotations

import socket
import ssl

import pytest

import smartclient
from smartclient._call import Origin
from smartclient.net.dial import Connect, Resolve, Secure, dial
from smartclient.net.options import NetOptions
from smartclient.net.routes import Routes

ADDRESS = (socket.AF_INET, ("192.0.2.1", 443))


def steps_to(host: str, scheme: str = "https"):
    return dial(Routes(NetOptions()).to(Origin(scheme, host, 443)))


def test_a_name_is_looked_up_connected_to_and_secured():
    steps = steps_to("a.example")

    assert next(steps) == Resolve("a.example", 443)
    assert steps.send([ADDRESS]) == Connect([ADDRESS])
    secure = steps.send(None)
    assert isinstance(secure, Secure)
    assert secure.host == "a.example"
    with pytest.raises(StopIteration):
        steps.send(None)


def test_an_address_is_not_looked_up_and_a_plain_origin_not_secured():
    steps = steps_to("192.0.2.1", "http")

    assert next(steps) == Connect([ADDRESS])
    with pytest.raises(StopIteration):
        steps.send(None)


@pytest.mark.parametrize(
    ("num_done", "error", "kind"),
    [
        (0, socket.gaierror(-2, "Name or service not known"), "resolve"),
        (1, ConnectionRefusedError(111, "refused"), "connect"),
        (2, ssl.SSLError(1, "wrong version"), "tls"),
    ],
)
def test_a_step_that_fails_says_which(num_done, error, kind):
    steps = steps_to("a.example")
    next(steps)
    for answer in ([ADDRESS], None)[:num_done]:
        steps.send(answer)

    with pytest.raises(smartclient.ExchangeError) as caught:
        steps.throw(error)

    assert caught.value.kind == kind
    assert caught.value.__cause__ is error
