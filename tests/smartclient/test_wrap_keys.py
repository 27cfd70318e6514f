"""A key that no header can carry is refused by `wrap`, as our own client refuses it."""

from __future__ import annotations

import traceback
from typing import Any

import anthropic
import openai
import pytest

import smartclient
from smartclient import Client

SECRET = "sk-very-secret"


@pytest.mark.sdk
@pytest.mark.parametrize("end", ["\r", "\r\n", "\n", "é", "\0"], ids=ascii)
@pytest.mark.parametrize("sdk", [anthropic.Anthropic, openai.OpenAI, openai.AsyncOpenAI])
def test_a_key_read_with_its_line_end_is_refused_and_not_shown(sdk: Any, end: str):
    """The SDKs show it whole, in the cause of a connection error (open-agent-spec#91)."""
    client = sdk(base_url="http://127.0.0.1:1", api_key=SECRET + end)

    with pytest.raises(ValueError, match=r"api_key .* not shown") as caught:
        smartclient.wrap(client)

    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert type(client) is sdk


@pytest.mark.sdk
def test_a_key_that_a_function_brings_is_left_to_it():
    client = openai.OpenAI(base_url="http://127.0.0.1:1", api_key=lambda: SECRET)

    assert smartclient.wrap(client) is client


@pytest.mark.sdk
def test_a_client_that_has_a_token_in_place_of_a_key_is_wrapped():
    """Azure's client then has a mark for its key, which no server ever sees."""
    client = openai.AzureOpenAI(
        azure_endpoint="http://127.0.0.1:1", api_version="v", azure_ad_token_provider=lambda: SECRET
    )

    assert smartclient.wrap(client) is client


@pytest.mark.parametrize("base_url", ["http://a\r\n.example", "http://a b", "http://a/\tx"])
def test_an_address_with_a_line_break_inside_is_refused(base_url):
    with pytest.raises(ValueError, match="line break"):
        Client(base_url=base_url, api_key="k")
