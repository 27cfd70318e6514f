"""Find tool calls in a model's text as it comes.

A call is `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, blanks between apart.
Nothing of a call is told before it is known to be one. Where the engine holds the output to a
grammar it is one as soon as its name is there, and its arguments are told as they come;
elsewhere it is one when it is complete, and what turns out to be none is text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from secrets import token_hex
from typing import TypeAlias

from ..api.events import (
    ArgumentsDelta,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolEvent,
)

__all__ = ["CLOSE", "OPEN", "ToolText"]

OPEN = "<tool_call>"
CLOSE = "</tool_call>"

_Events: TypeAlias = list[TextDelta | ToolEvent]

# What may be the start of a call, or the blank before it: held back until it is known.
_HELD = re.compile(
    r"\s*(?:" + "|".join(re.escape(OPEN[:end]) for end in range(len(OPEN) - 1, 0, -1)) + r")?\Z"
)
_NAMED = re.compile(r'\s*\{\s*"name"\s*:\s*"([^"\\]*)"\s*,\s*"arguments"\s*:\s*(?=\{)')
_STRUCTURE = re.compile(r'[{}\[\]"\\]')


class ToolText:
    """Finds the calls in one output.

    Args:
        names: The tools that may be called; a call of another is text.
        index: Which of the request's answers it is.
        is_held: Whether the engine holds the output to a grammar, so that what starts as a
            call is one.
        new_id: Makes the calls' ids.

    Attributes:
        num_calls: Calls that are complete.
        is_closing: Whether what comes next belongs to the end of one, as far as is known.
    """

    def __init__(
        self,
        names: Iterable[str],
        *,
        index: int = 0,
        is_held: bool = False,
        new_id: Callable[[], str] = lambda: token_hex(12),
    ) -> None:
        self._names = frozenset(names)
        self._index = index
        self._is_held = is_held
        self._new_id = new_id
        self._rest = ""
        self._call: _Call | None = None
        self.is_closing = False
        self.num_calls = 0

    def feed(self, text: str) -> _Events:
        """What `text` adds to what came before."""
        events: _Events = []
        self._rest += text
        while self._advance(events):
            pass
        return events

    def finish(self) -> _Events:
        """What was held back, at the output's end."""
        rest, call = self._rest, self._call
        self._rest, self._call = "", None
        if call is not None:
            return [] if call.is_told else [self._text(call.mark + call.text)]
        if self.is_closing or (self.num_calls and rest.isspace()):
            return []
        return [self._text(rest)] if rest else []

    def _advance(self, events: _Events) -> bool:
        """Take the next step; `False`: more text is needed."""
        if self._call is not None:
            return self._advance_call(self._call, events)
        if self.is_closing:
            return self._advance_close()
        at = self._rest.find(OPEN)
        if at >= 0:
            before = self._rest[:at]
            if told := before.rstrip():
                events.append(self._text(told))
            self._call = _Call(before[len(told) :] + OPEN)
            self._rest = self._rest[at + len(OPEN) :]
            return True
        held = _HELD.search(self._rest)
        assert held is not None  # it matches nothing at the end, too
        if told := self._rest[: held.start()]:
            events.append(self._text(told))
        self._rest = held.group()
        return False

    def _advance_close(self) -> bool:
        stripped = self._rest.lstrip()
        if CLOSE.startswith(stripped) and stripped != CLOSE:
            return False
        self.is_closing = False
        if stripped.startswith(CLOSE):
            self._rest = stripped[len(CLOSE) :]
        return True

    def _advance_call(self, call: _Call, events: _Events) -> bool:
        call.add(self._rest)
        self._rest = ""
        if self._is_held:
            events += self._told_early(call)
        if call.is_complete:
            complete = [ToolCallFinished(self._index)] if call.is_told else self._whole(call)
            if complete:
                events += complete
                self.num_calls += 1
                self._rest, self._call, self.is_closing = call.text[call.end :], None, True
                return True
        elif not call.is_broken:
            return False
        events.append(self._text(call.mark))
        self._rest, self._call = call.text, None
        return True

    def _told_early(self, call: _Call) -> _Events:
        """The start of a call that a grammar holds, and its arguments as far as they are there."""
        events: _Events = []
        if not call.is_told:
            named = _NAMED.match(call.text)
            if named is None or named.group(1) not in self._names:
                return events
            call.told = named.end()
            events.append(ToolCallStarted(self._new_id(), named.group(1), self._index))
        end = call.arguments_end or len(call.text)
        if call.told < end:
            events.append(ArgumentsDelta(call.text[call.told : end], self._index))
            call.told = end
        return events

    def _whole(self, call: _Call) -> _Events:
        """A complete call; nothing: it is none, or of a tool that there is not."""
        try:
            # Models write line breaks into strings as they are.
            value = json.loads(call.text[: call.end], strict=False)
            arguments = value.get("arguments", value.get("parameters", {}))
            written = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
            # Half a surrogate pair, which is no text, goes back into the escape that it came as.
            written = written.encode("utf-8", "backslashreplace").decode()
        except (ValueError, RecursionError):
            return []
        name = value.get("name")
        if not isinstance(arguments, dict) or not isinstance(name, str) or name not in self._names:
            return []
        return [
            ToolCallStarted(self._new_id(), name, self._index),
            ArgumentsDelta(written, self._index),
            ToolCallFinished(self._index),
        ]

    def _text(self, text: str) -> TextDelta:
        return TextDelta(text, self._index)


class _Call:
    """The text after `<tool_call>`, searched for the end of the one object that it is.

    Args:
        mark: What stands before it, the mark and the blanks before that.

    Attributes:
        told: How far the arguments were told already; 0: not even the name was.
        end: Where the object ends, once it is complete.
        arguments_end: Where the object inside of it has ended.
    """

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.text = ""
        self.told = 0
        self.end = 0
        self.arguments_end = 0
        self.is_broken = False
        self._at = 0
        self._depth = 0
        self._is_in_string = False

    @property
    def is_told(self) -> bool:
        return self.told > 0

    @property
    def is_complete(self) -> bool:
        return self.end > 0

    def add(self, text: str) -> None:
        """Search on in `text`."""
        self.text += text
        if self._depth == 0:
            self._at = len(self.text) - len(self.text.lstrip())
            if self._at == len(self.text):
                return
            self.is_broken = self.text[self._at] != "{"
        while not (self.is_broken or self.is_complete):
            found = _STRUCTURE.search(self.text, self._at)
            if found is None:
                self._at = len(self.text)
                return
            at = found.start()
            if found.group() == "\\":
                if at + 1 == len(self.text):
                    self._at = at
                    return
                self._at = at + 2  # whatever it is, it is neither an end nor a start
                continue
            self._at = at + 1
            self._turn(found.group())

    def _turn(self, character: str) -> None:
        if character == '"':
            self._is_in_string = not self._is_in_string
        elif not self._is_in_string:
            self._depth += 1 if character in "{[" else -1
            if self._depth == 1 and character == "}":
                self.arguments_end = self._at
            if self._depth == 0:
                self.end = self._at
