"""The official SDKs with proxies of their own, wrapped: the proxy sees our connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator

import anthropic
import httpx
import httpx2
import openai
import pytest

import server_reference
from smartclient import wrap
from tests.smartclient.sdk_clients import ASKED

from .proxies import HttpProxy, SocksProxy
from .test_proxies import IN_URL, LOGIN, with_login

pytestmark = pytest.mark.sdk


@pytest.fixture(scope="module")
def provider() -> Iterator[server_reference.scripted]:
    with server_reference.scripted("Paris", tls=True, http2=False) as running:
        yield running


@pytest.fixture
def plain() -> Iterator[server_reference.scripted]:
    with server_reference.scripted("Paris") as running:
        yield running


def asked(client, num: int = 3) -> list[str]:
    """The texts of `num` answers, one after another in one event loop."""
    anthropics = (anthropic.Anthropic, anthropic.AsyncAnthropic)
    resource = client.messages if isinstance(client, anthropics) else client.chat.completions

    def create():
        return resource.create(model="tiny", max_tokens=8, messages=ASKED)

    def text(answer) -> str:
        is_message = isinstance(client, anthropics)
        return answer.content[0].text if is_message else answer.choices[0].message.content

    async def run():
        try:
            return [text(await create()) for _ in range(num)]
        finally:
            await client.close()

    if isinstance(client, (openai.AsyncOpenAI, anthropic.AsyncAnthropic)):
        return asyncio.run(run())
    with client:
        return [text(create()) for _ in range(num)]


SDKS = [
    pytest.param(openai.OpenAI, httpx2.Client, id="openai"),
    pytest.param(openai.OpenAI, httpx.Client, id="openai-on-httpx"),
    pytest.param(anthropic.Anthropic, httpx2.Client, id="anthropic"),
    pytest.param(openai.AsyncOpenAI, httpx2.AsyncClient, id="async-openai"),
    pytest.param(openai.AsyncOpenAI, httpx.AsyncClient, id="async-openai-on-httpx"),
    pytest.param(anthropic.AsyncAnthropic, httpx2.AsyncClient, id="async-anthropic"),
]


def made(kind, base_url: str, http_client=None):
    path = "" if kind in (anthropic.Anthropic, anthropic.AsyncAnthropic) else "/v1"
    return kind(api_key="sk-test", base_url=f"{base_url}{path}", http_client=http_client)


@pytest.mark.parametrize(("kind", "http"), SDKS)
def test_a_proxy_of_the_http_client_carries_all_calls_through_one_tunnel(kind, http, provider):
    context = ssl.create_default_context(cafile=provider.ca_file)
    with HttpProxy(LOGIN) as proxy:
        http_client = http(proxy=with_login(proxy.address), verify=context)
        client = wrap(made(kind, provider.base_url, http_client))

        assert asked(client) == ["Paris"] * 3

    assert len(proxy.asked) == proxy.num_connections == 1
    assert proxy.asked[0].startswith("CONNECT 127.0.0.1:")


@pytest.mark.parametrize(("kind", "http"), SDKS)
def test_a_plain_origin_is_asked_for_through_the_proxy(kind, http, plain):
    with HttpProxy(LOGIN) as proxy:
        client = wrap(made(kind, plain.base_url, http(proxy=with_login(proxy.address))))

        assert asked(client) == ["Paris"] * 3

    assert [one.split(" ")[0] for one in proxy.asked] == ["POST"] * 3
    assert proxy.num_connections == 1


@pytest.mark.parametrize(
    "kind",
    [openai.OpenAI, openai.AsyncOpenAI, anthropic.Anthropic, anthropic.AsyncAnthropic],
    ids=lambda kind: kind.__name__,
)
def test_an_sdks_own_client_goes_by_the_environment(kind, plain, monkeypatch):
    with HttpProxy(LOGIN) as proxy:
        monkeypatch.setenv("HTTP_PROXY", with_login(proxy.address))
        client = wrap(made(kind, plain.base_url))
        monkeypatch.delenv("HTTP_PROXY")  # it was read when the SDK's client was made

        assert asked(client) == ["Paris"] * 3

    assert proxy.num_connections == 1


@pytest.mark.parametrize("kind", [openai.OpenAI, anthropic.AsyncAnthropic])
def test_what_the_environment_lets_go_straight_goes_straight(kind, plain, monkeypatch):
    with HttpProxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        client = wrap(made(kind, plain.base_url))

        assert asked(client) == ["Paris"] * 3

    assert proxy.num_connections == 0


@pytest.mark.parametrize("kind", [openai.OpenAI, anthropic.AsyncAnthropic])
def test_a_proxy_may_be_given_to_wrap(kind, plain):
    with SocksProxy(LOGIN) as proxy:
        url = f"socks5h://{IN_URL}@{proxy.address}"
        client = wrap(made(kind, plain.base_url), proxy=url)

        assert asked(client) == ["Paris"] * 3

    assert proxy.num_connections == 1


@pytest.mark.parametrize(
    ("kind", "http"),
    [SDKS[0], SDKS[1], SDKS[5]],
)
def test_a_refusal_reaches_the_caller_as_the_sdks_error_once(kind, http, provider):
    context = ssl.create_default_context(cafile=provider.ca_file)
    sdk = anthropic if kind is anthropic.AsyncAnthropic else openai
    with HttpProxy("someone:else") as proxy:
        http_client = http(proxy=with_login(proxy.address), verify=context)
        client = wrap(made(kind, provider.base_url, http_client))

        with pytest.raises(sdk.APIConnectionError) as caught:
            asked(client)

    assert "does not accept the user and password" in str(caught.value.__cause__)
    assert type(caught.value.__cause__).__name__ == "ProxyError"
    assert len(proxy.asked) == 1
