"""A server for `prefix`, in a process of its own: prints its URL, ends with its input."""

from __future__ import annotations

import sys

import server_reference

__all__ = ["main"]


def main(model: str) -> None:
    """Serve `model` until standard input ends."""
    with server_reference.start(model) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
