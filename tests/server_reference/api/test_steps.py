from __future__ import annotations

import asyncio

import pytest

from server_reference.api.app import create_app
from server_reference.api.errors import ApiError
from server_reference.api.record import CallRecord
from server_reference.api.steps import DEFAULT_LAST, read_last
from tests.server_reference.asgi import Client


def steps_of(service, *, is_admin):
    state = {"record": CallRecord("/debug/steps"), "body": b"", "is_admin": is_admin}
    client = Client(create_app(service))
    return asyncio.run(client.request("GET", "/debug/steps", state=state)).json()["engines"]


def test_each_engines_steps_are_told_or_that_it_does_not_answer(service):
    (step,), silent = steps_of(service, is_admin=True)

    assert (step["number"], step["at"], step["duration"]) == (7, 1.5, 0.25)
    assert step["scheduled"][0]["why"] == "decode"
    assert silent is None


@pytest.mark.parametrize(
    ("is_admin", "names"), [(True, ["ann", "bob"]), (False, ["", ""])], ids=["admin", "anyone"]
)
def test_tenants_names_are_for_the_admin(service, is_admin, names):
    (step,), _ = steps_of(service, is_admin=is_admin)

    assert [one["tenant"] for one in step["scheduled"] + step["waiting"]] == names


@pytest.mark.parametrize(
    ("text", "last"), [(None, DEFAULT_LAST), ("1", 1), ("1000", 1000), ("007", 7)]
)
def test_how_many_are_asked_for(text, last):
    assert read_last(text) == last


@pytest.mark.parametrize("text", ["", "0", "1001", "-1", "ten", "1.5", "٣", "9" * 5000])
def test_a_number_of_steps_that_cannot_be_is_refused(text):
    with pytest.raises(ApiError, match="from 1 to 1000") as refused:
        read_last(text)

    assert len(refused.value.message) < 200
