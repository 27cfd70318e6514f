"""Compile the grammars of requests beside the engine's steps, tenants in turn.

A large one takes half a second, for which nobody else's tokens should wait. llguidance
compiles without the interpreter's lock.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from dataclasses import replace
from typing import NamedTuple, Protocol

from ..core import GenerateRequest, Grammar

__all__ = ["Compiling", "Grammars"]

_log = logging.getLogger(__name__)

_READ_BYTES = 4096


class Grammars(Protocol):
    """What compiles grammars, and keeps what was made of the latest."""

    def has(self, grammar: Grammar) -> bool: ...
    def compile(self, grammar: Grammar) -> object: ...


class _Asked(NamedTuple):
    request: GenerateRequest
    grammar: Grammar
    at: float


class Compiling:
    """Requests whose grammars are being compiled, by one thread.

    Args:
        grammars: Is called in that thread.

    Attributes:
        descriptor: Can be read once there is something to take.
    """

    def __init__(self, grammars: Grammars) -> None:
        self._grammars = grammars
        self._lines: dict[str, deque[_Asked]] = {}  # by tenant, in turns; none is empty
        self._ids: set[str] = set()
        self._done: deque[tuple[GenerateRequest, str | None]] = deque()
        self._change = threading.Condition()
        self._is_closed = False
        self.descriptor, self._wake = os.pipe()
        os.set_blocking(self.descriptor, False)
        self._thread = threading.Thread(target=self._run, name="grammars", daemon=True)
        self._thread.start()

    def begin(self, request: GenerateRequest) -> bool:
        """Compile the grammar of a request; `False`: there is nothing to compile."""
        grammar = request.params.grammar
        if grammar is None or self._grammars.has(grammar):
            return False
        with self._change:
            self._ids.add(request.id)
            line = self._lines.setdefault(request.tenant, deque())
            line.append(_Asked(request, grammar, time.monotonic()))
            self._change.notify()
        return True

    def drop(self, id: str) -> None:
        """Forget a request, if it is here."""
        with self._change:
            self._ids.discard(id)

    def take(self) -> list[tuple[GenerateRequest, str | None]]:
        """Requests that are through, each with why its grammar cannot be used, if so."""
        try:
            os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return []
        taken = []
        with self._change:
            while self._done:
                request, error = self._done.popleft()
                if request.id in self._ids:
                    self._ids.remove(request.id)
                    taken.append((request, error))
        return taken

    def close(self) -> None:
        """End the thread, after what it compiles just now."""
        with self._change:
            self._is_closed = True
            self._change.notify()
        self._thread.join()
        os.close(self.descriptor)
        os.close(self._wake)

    def _run(self) -> None:
        while (asked := self._next()) is not None:
            error = self._compiled(asked)
            request = asked.request
            if request.deadline is not None:
                left = request.deadline - (time.monotonic() - asked.at)
                request = replace(request, deadline=left)
            self._done.append((request, error))
            os.write(self._wake, b"!")

    def _next(self) -> _Asked | None:
        """The first in line of the tenant whose turn it is; `None`: time to end."""
        with self._change:
            while True:
                self._change.wait_for(lambda: self._is_closed or self._lines)
                if self._is_closed:
                    return None
                tenant, line = next(iter(self._lines.items()))
                del self._lines[tenant]
                asked = line.popleft()
                if line:
                    self._lines[tenant] = line
                if asked.request.id in self._ids:
                    return asked

    def _compiled(self, asked: _Asked) -> str | None:
        """Why it cannot be."""
        kind = asked.grammar.kind
        try:
            self._grammars.compile(asked.grammar)
        except ValueError as error:
            return str(error)
        except BaseException as error:  # a panic of the library's is no `Exception`
            _log.exception("a %s could not be compiled", kind)
            return f"the {kind} made its compiler fail ({type(error).__name__}); simplify it"
        return None
