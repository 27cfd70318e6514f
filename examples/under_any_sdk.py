"""An SDK that smartclient does not know, over our connections, with our retries and reports.

Run it with `python -m examples.under_any_sdk`. It starts a provider on this machine that is
busy at first, and stops it.
"""

from __future__ import annotations

from typing import Any

import httpx

import server_reference
import smartclient
from server_reference.scripted import Answer, ErrorAnswer, rule

__all__ = ["main"]


class _Sdk:
    """Somebody's SDK: all that it needs of us is an argument for its HTTP client."""

    def __init__(self, base_url: str, http_client: httpx.Client) -> None:
        self._url, self._http = f"{base_url}/v1/chat/completions", http_client

    def ask(self, question: str) -> str:
        body = {"model": "any", "messages": [{"role": "user", "content": question}]}
        response = self._http.post(self._url, json=body)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return str(answer["choices"][0]["message"]["content"])


def main() -> int:
    """Two calls over one connection, the first sent again once; 0 when it was so."""
    hello = Answer("Hi there!")
    answers = [ErrorAnswer(503, headers={"retry-after-ms": "20"}), hello, hello]
    with (
        server_reference.scripted([rule(answers)]) as provider,
        smartclient.httpx_client() as http_client,
    ):
        sdk = _Sdk(provider.base_url, http_client)
        print("provider:", sdk.ask("Hello"))
        print(smartclient.last_report(http_client))
        print("provider:", sdk.ask("Hello again"))
        counted = provider.counters()
    print("requests:", counted.requests, "connections:", counted.connections_opened)
    return 0 if (counted.requests, counted.connections_opened) == (3, 1) else 1


if __name__ == "__main__":
    raise SystemExit(main())
