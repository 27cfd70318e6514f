"""The scripted server in a process of its own: prints its URL, then says what it has used."""

from __future__ import annotations

import resource
import sys
from time import perf_counter, process_time

import server_reference
from server_reference.scripted import Answer, rule

from .answering import answer

__all__ = ["main"]

_WORDS = "the river runs past a small town whose people sell their food near old houses".split()


def main(words: int, *, tls: bool = False) -> None:
    """Answer every request with so many words, until standard input ends.

    The model `split` writes each event of a stream by itself. With `tls` what is to be trusted
    stands behind the URL.
    """
    text = [f"{_WORDS[number % len(_WORDS)]} " for number in range(words)]
    begun = perf_counter()
    split = Answer(text=text, split="event", gap=0.0)
    rules = [rule(split, model="split"), rule(Answer(text=text))]
    with server_reference.scripted(rules, tls=tls or None) as server:
        started = perf_counter() - begun
        print(server.base_url, server.ca_file or "", flush=True)

        def used() -> dict[str, float]:
            return {"cpu": process_time(), "kib": _resident_kib(), "start": started}

        answer(used)


def _resident_kib() -> int:
    """Memory at its highest."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main(int(sys.argv[1]), tls="tls" in sys.argv[2:])
