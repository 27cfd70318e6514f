"""What a fault is: its name, where it was seen, how a client should take it, what it takes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, TypeAlias

from ..ops import Script
from ..request import Api, Received
from .parameters import check_parameters
from .pieces import Reply, UnfitError

__all__ = ["KINDS", "Break", "ClientSide", "Kind", "Need", "Preset", "PresetFault", "preset"]

P = ParamSpec("P")

Break: TypeAlias = Callable[[Reply, Received], Script]
"""Makes the broken script of a reply's parts."""

Kind = Literal[
    "SSE", "END", "SHAPE", "CONN", "H2", "RETRY", "TIME", "COST", "CACHE", "BODY", "UNI", "SEC",
    "STACK", "ASYNC", "PROC", "TOKEN", "OTEL",
]  # fmt: skip

KINDS: Mapping[Kind, str] = {
    "SSE": "how an event stream is parsed",
    "END": "how a stream ends",
    "SHAPE": "what the events hold",
    "CONN": "HTTP/1.1, its connections and pools",
    "H2": "HTTP/2",
    "RETRY": "what is sent again, and when",
    "TIME": "time limits",
    "COST": "tokens used, and what they cost",
    "CACHE": "the provider's prompt cache",
    "BODY": "encodings of the body",
    "UNI": "characters",
    "SEC": "secrets",
    "STACK": "the libraries below",
    "ASYNC": "event loops and cancellation",
    "PROC": "processes, threads and pickling",
    "TOKEN": "counting tokens",
    "OTEL": "telemetry",
}

Need = Literal["stream", "http/1.1", "h2", "tls", "greeting"]
"""What a fault cannot do without; `greeting` is played before a request has come."""

_ARGUMENT = re.compile(r"^ {4}(\w+): (.*(?:\n {6,}.*)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PresetFault:
    """A fault with its parameters; `Answer(...) | fault` and a rule's `then` take it."""

    preset: Preset[...]
    parameters: Mapping[str, Any]
    breaks: Break = field(repr=False, compare=False)

    def apply(self, script: Script, received: Received) -> Script:
        """The broken script.

        Raises:
            UnfitError: This reply cannot be broken so.
        """
        reply = Reply.of(script)
        if (why := self.preset.unfit(reply, received)) is not None:
            raise UnfitError(f"fault {self.preset.name}: {why}")
        try:
            return self.breaks(reply, received)
        except UnfitError as error:
            raise UnfitError(f"fault {self.preset.name}: {error}") from None


@dataclass(frozen=True)
class Preset(Generic[P]):
    """A named fault. Called with its parameters it gives the fault itself.

    Attributes:
        right: What a client should do.
        sources: Where it was seen.
        needs: What it cannot do without.
        apis: Wire formats that have it; empty is all, and any other endpoint.
    """

    kind: Kind
    make: Callable[P, Break] = field(repr=False)
    right: str
    sources: str
    needs: tuple[Need, ...] = ()
    apis: tuple[Api, ...] = ()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> PresetFault:
        """The fault.

        Raises:
            ValueError: A parameter is unknown or out of range.
            TypeError: A parameter is of a wrong type.
        """
        given = dict(zip(inspect.signature(self.make).parameters, args, strict=False)) | kwargs
        check_parameters(self.name, self.make, given)
        return PresetFault(self, given, self.make(*args, **kwargs))

    @property
    def name(self) -> str:
        return self.make.__name__

    @cached_property
    def condition(self) -> str:
        """What happens, in a sentence."""
        return " ".join((inspect.getdoc(self.make) or "").split("\n\n")[0].split())

    @cached_property
    def parameters(self) -> dict[str, tuple[Any, str]]:
        """Each parameter's default, and what it does."""
        said = dict(_ARGUMENT.findall(inspect.getdoc(self.make) or ""))
        return {
            name: (one.default, " ".join(said[name].split()))
            for name, one in inspect.signature(self.make).parameters.items()
        }

    def unfit(self, reply: Reply, received: Received) -> str | None:
        """Why this reply cannot be broken so; `None` when it can."""
        if self.apis and received.api not in self.apis:
            return f"it is for {', '.join(self.apis)}, and this is {received.api or 'none of them'}"
        if "stream" in self.needs and not reply.is_stream:
            return "it breaks a stream, and this reply is none; match it with stream=True"
        if "h2" in self.needs and received.protocol != "h2":
            return f"it needs HTTP/2, and this request came over {received.protocol}"
        if "http/1.1" in self.needs and received.protocol == "h2":
            return "it needs HTTP/1.1, and this request came over h2"
        return None


class ClientSide(NamedTuple):
    """A fault that no server can cause.

    Attributes:
        why: Why a server has no part in it, and what of it a server can show.
    """

    name: str
    kind: Kind
    sources: str
    condition: str
    right: str
    why: str


def preset(
    kind: Kind,
    sources: str,
    *,
    right: str,
    needs: Need | tuple[Need, ...] = (),
    apis: Api | tuple[Api, ...] = (),
) -> Callable[[Callable[P, Break]], Preset[P]]:
    """Make a preset of its maker; the first paragraph of its docstring is the condition."""

    def named(make: Callable[P, Break]) -> Preset[P]:
        return Preset(
            kind,
            make,
            right,
            sources,
            (needs,) if isinstance(needs, str) else needs,
            (apis,) if isinstance(apis, str) else apis,
        )

    return named
