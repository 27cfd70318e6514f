"""The whole way of a prompt, shown: a server with a real model, an SDK, our client, a report.

Run it with `scripts/demo`. It starts everything that it needs on this machine, and stops it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import server_reference
import smartclient
from server_reference.checkpoints.registry import ModelUnavailableError, resolve
from server_reference.gateway.server import Server

__all__ = ["main"]

# Two handbooks of equal length that share no beginning.
_RULES = (
    "Answer in one short sentence. Be polite, name the branch that can help, and never promise "
    "what the house rules do not allow. Opening hours are nine to six on weekdays and ten to "
    "four on Saturdays. Books may be kept for four weeks, films for one; both can be renewed "
    "twice unless another reader waits. A lost card costs three euros. Children under twelve "
    "need the signature of a parent. Rooms are booked at the desk, two hours at most, and "
    "whoever does not come within fifteen minutes loses the booking. Newspapers are read on the "
    "ground floor, maps and old prints on the second, where bags stay in the lockers. Copies "
    "cost ten cents a page, scans nothing. Dogs wait outside, except those that guide. The café "
    "closes an hour before the house does. Gifts of books are welcome on the first Monday of a "
    "month, at the side door, up to two boxes. Readers who move away give their card back and "
    "get their deposit. A book that another library holds can be sent for; it takes a week and "
    "costs one euro. Groups announce themselves three days before. Photographs for private use "
    "need no permission, a tripod does. Lost things are kept for half a year at the desk. "
)
_SPEAKER = "{name} is the library whose letters you answer. "  # the name first: it differs
_ASKED = "When are you open on Saturdays?"
_QUESTIONS = (
    "What is the capital of {}?",
    "Name a river in {}.",
    "Which language do people speak in {}?",
    "Name a mountain in {}.",
)
_PLACES = ("France", "Japan", "Peru", "Kenya", "Norway", "Egypt", "Canada", "India")


def main() -> int:
    """Run the four parts; the exit status is 0 when all of them held."""
    model = _model()
    _say(f"Starting the server with {model} …")
    before = time.monotonic()
    with server_reference.start(model=model, num_blocks=2048) as server:
        _say(f"  ready after {time.monotonic() - before:.1f} s at {server.base_url}")
        free = {model: {"prices": {"input": 0, "output": 0}}}  # nobody sells it by the token
        with smartclient.Client(
            base_url=server.base_url, api_key=server.api_key, catalog=free
        ) as client:
            _warm_up(client, model)
            _first_the_sdk(server, model)
            reused = _then_our_client(client, model)
            batched = _one_by_one_and_together(client, model)
            _waterfall(client, model)
    _say("Everything is stopped.")
    return 0 if reused and batched else 1


def _model() -> str:
    """`smollm2`, fetched if need be; `tiny` where it cannot be had."""
    try:
        resolve("smollm2")
    except ModelUnavailableError as error:
        _say(f"{error}\nGoing on with `tiny`, whose random weights talk nonsense at full speed.")
        return "tiny"
    return "smollm2"


def _warm_up(client: smartclient.Client, model: str) -> None:
    _ask(client, model, "Warm up.", "Say hello.", max_tokens=4)


def _first_the_sdk(server: Server, model: str) -> None:
    _title("1. The official Anthropic SDK, wrapped, streams an answer")
    import anthropic  # takes seconds, in which the first words are on the screen already

    sdk = smartclient.wrap(anthropic.Anthropic(base_url=server.base_url, api_key=server.api_key))
    with sdk.messages.stream(
        model=model,
        max_tokens=40,
        extra_body={"temperature": 0.0},  # this SDK has no parameter for it any more
        system=_SPEAKER.format(name="Northgate") + _RULES,
        messages=[{"role": "user", "content": _ASKED}],
    ) as stream:
        for text in stream.text_stream:
            _say(text, end="")
    _say("\n  (A model of 135 million parameters is fluent, and seldom right.)")
    sdk.close()


def _then_our_client(client: smartclient.Client, model: str) -> bool:
    _title("2. Our own client: a prefix that was never seen, and the one that was")
    cold, _ = _first_token(client, model, "cold", library="Southgate")
    warm, read = _first_token(client, model, "warm", library="Northgate")
    _say(f"  TTFT warm / cold = {warm / cold:.2f}")
    return warm < cold and read > 0


def _first_token(
    client: smartclient.Client, model: str, name: str, *, library: str
) -> tuple[float, int]:
    """Seconds until it, and input tokens read from the prefix cache."""
    report = _ask(client, model, _SPEAKER.format(name=library) + _RULES, _ASKED)
    usage, ttft = report.usage, report.ttft
    assert usage is not None
    assert ttft is not None
    _say(
        f"  {name}: {usage.input_tokens} input tokens, {usage.cache_read} read from the "
        f"prefix cache, first token after {ttft * 1000:.0f} ms"
    )
    return ttft, usage.cache_read or 0


def _one_by_one_and_together(client: smartclient.Client, model: str) -> bool:
    _title("3. Eight questions in a row, then eight others at once")

    def ask(number: int) -> int:
        # Each begins differently, so that no prefix is shared.
        place, question = _PLACES[number % 8], _QUESTIONS[number // 8]
        report = _ask(client, model, f"{place}, {number}.", question.format(place), max_tokens=24)
        return (report.usage.output if report.usage else None) or 0

    row, row_tokens = _timed(lambda: [ask(number) for number in range(8)])
    _say(f"  in a row: {row_tokens} tokens in {row:.2f} s, {row_tokens / row:.0f} tokens/s")
    with ThreadPoolExecutor(8) as threads:
        once, once_tokens = _timed(lambda: list(threads.map(ask, range(8, 16))))
    _say(f"  at once:  {once_tokens} tokens in {once:.2f} s, {once_tokens / once:.0f} tokens/s")
    gain = (once_tokens / once) / (row_tokens / row)
    _say(f"  the batch is {gain:.1f} times as fast")
    return gain > 1.0


def _waterfall(client: smartclient.Client, model: str) -> None:
    _title("4. Where the time of one call went")
    _say(str(_ask(client, model, "You know the sea.", "Why is it salty?", max_tokens=32)))


def _ask(
    client: smartclient.Client, model: str, system: str, question: str, *, max_tokens: int = 24
) -> smartclient.CallReport:
    with client.messages.stream(
        model=model,
        max_tokens=max_tokens,
        temperature=0.0,
        system=system,
        messages=[{"role": "user", "content": question}],
    ) as stream:
        stream.get_final_message()
        report = stream.report
    assert report is not None, "a stream that was read to its end has a report"
    return report


def _timed(work: Callable[[], list[int]]) -> tuple[float, int]:
    before = time.monotonic()
    tokens = sum(work())
    return time.monotonic() - before, tokens


def _title(text: str) -> None:
    _say(f"\n{text}")


def _say(text: str, *, end: str = "\n") -> None:
    print(text, end=end, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
