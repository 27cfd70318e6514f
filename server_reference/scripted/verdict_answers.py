"""Verdicts on what the caller made of an answer, where the test reports it.

Source: pydantic-ai#6610 (half an answer taken for whole), litellm#40578 and vllm#40978 (errors
in a stream dropped), anthropic-sdk-python#1258 (errors of the transport reach the caller),
open-agent-spec#91 (a key in an error's text).
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Sequence

from .entries import Entry
from .evidence import Evidence, VerdictRule, verdict_rule
from .sent import Sent, read_sent

__all__ = [
    "ANSWER_RULES",
    "answer_differs",
    "error_swallowed",
    "foreign_error",
    "key_in_error",
    "truncated_accepted",
]

_Seen = Iterator[tuple[str, Sequence[Entry]]]

_LOW = frozenset(
    "httpx httpx2 httpcore httpcore2 h11 h2 httptools anyio ssl socket json msgspec".split()
)
_AGENTS = re.compile(r"\b(?:Async)?(?:OpenAI|Anthropic|smartclient)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\s'\"<>,;()\[\]{}]{8,512}")
_SHOWN = 60


@verdict_rule
def truncated_accepted(evidence: Evidence) -> _Seen:
    """An answer that broke off was taken for whole."""
    for text, last, sent in _accepted(evidence):
        if not sent.has_end and sent.error is None and last.api is not None:
            how = "was still under way" if last.how is None else f"ended as {last.how}"
            yield (
                f"request {last.number} {how}, {last.reply_bytes} bytes into its body and before "
                f"its last event, and the caller took {_short(text)} for the whole answer",
                (last,),
            )


@verdict_rule
def error_swallowed(evidence: Evidence) -> _Seen:
    """The reply was an error, or held one, and the caller took it for an answer."""
    for text, last, sent in _accepted(evidence):
        if sent.error is not None:
            yield (
                f"request {last.number} was answered with {sent.error} (status {last.status}), "
                f"and the caller took {_short(text)} for the answer",
                (last,),
            )


@verdict_rule
def answer_differs(evidence: Evidence) -> _Seen:
    """The text that the caller got is not the text that was sent."""
    for text, last, sent in _accepted(evidence):
        if sent.has_end and sent.error is None and sent.text is not None and sent.text != text:
            at = next(
                (n for n, (a, b) in enumerate(zip(sent.text, text, strict=False)) if a != b),
                min(len(sent.text), len(text)),
            )
            yield (
                f"request {last.number} was sent {len(sent.text)} characters, and the caller got "
                f"{len(text)}; they differ from character {at}: sent {_short(sent.text[at:])}, "
                f"got {_short(text[at:])}",
                (last,),
            )


@verdict_rule
def foreign_error(evidence: Evidence) -> _Seen:
    """An SDK let an error of the layer below reach its caller, who does not expect it."""
    for scope, entries in evidence.reported:
        error, last = scope.error, entries[-1]
        if error is None or not _AGENTS.search(last.header("user-agent") or ""):
            continue
        is_own = any(_is_of_an_sdk(kind.__module__) for kind in type(error).__mro__)
        if not is_own and _came_through_an_sdk(error):
            name = f"{type(error).__module__}.{type(error).__qualname__}"
            if type(error).__module__.partition(".")[0] in _LOW or isinstance(error, OSError):
                yield f"the caller got {name}, which is no error of the SDK that it uses", (last,)


@verdict_rule
def key_in_error(evidence: Evidence) -> _Seen:
    """The API key stands in the text of an error that the caller got."""
    for scope, entries in evidence.reported:
        if scope.error is None:
            continue
        words = set(_WORD.findall("".join(traceback.format_exception(scope.error))))
        keys = {entry.credential for entry in entries if entry.credential}
        if any(evidence.is_key(word, key) for word in words for key in keys):
            kind = type(scope.error).__name__
            yield f"the text of {kind}, or of its cause, holds the API key", entries[-1:]


def _accepted(evidence: Evidence) -> Iterator[tuple[str, Entry, Sent]]:
    """Calls whose caller got a text and took it for whole."""
    for scope, entries in evidence.reported:
        if scope.text is not None and scope.error is None and not scope.is_abandoned:
            yield scope.text, entries[-1], read_sent(entries[-1])


def _is_of_an_sdk(module: str) -> bool:
    return module.partition(".")[0] in ("openai", "anthropic", "smartclient")


def _came_through_an_sdk(error: BaseException) -> bool:
    """Not so where the caller timed out, or raised, by itself; unknown if it was never raised."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = [str(frame.f_globals.get("__name__", "")) for frame in frames]
    return not frames or any(map(_is_of_an_sdk, names))


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


ANSWER_RULES: tuple[VerdictRule, ...] = (
    truncated_accepted,
    error_swallowed,
    answer_differs,
    foreign_error,
    key_in_error,
)
