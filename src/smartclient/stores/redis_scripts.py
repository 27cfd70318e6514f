"""The operations of a `RedisStore` as scripts, their keys and arguments, and their answers.

A script runs in Redis as one step. It reads all that it needs before it writes, so that one
that fails has changed nothing. An account is one text: of each meter what is spent, then of
each what is held. All keys share one hash tag, because a cluster runs a script
only where all of its keys lie.

Source: Redis, "Scripting with Lua" (a script is atomic; numbers are doubles, and `%.0f` writes
them in full) and "Redis cluster specification", section "Hash tags".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha1
from math import ceil
from typing import Any, assert_never
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from .operations import Account, Operation, Read, Reserve, Reserved, Settle
from .protocol import StoreError
from .sums import HOLD, METERS, MOST, balance, counts, limits, named

__all__ = ["Command", "Script", "Writer", "identified", "read_answer"]

_MADE_UP = "~"  # begins the ids that no settlement will name
_SLACK = 60.0  # seconds that an account outlives its window: calls of its last moment settle later


class Script(Struct, frozen=True):
    """A script, and the name under which Redis keeps it."""

    text: str
    digest: str


class Command(Struct, frozen=True):
    """One call of a script.

    Attributes:
        numbers: Its arguments, all in one: a client spends more on each than on its length.
    """

    script: Script
    keys: tuple[str, ...]
    numbers: str


def _script(text: str) -> Script:
    text = _SHARED + text
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


_SHARED = """
local given = {}
for word in string.gmatch(ARGV[1] or '', '%S+') do given[#given + 1] = word end
local form = '%.0f %.0f %.0f %.0f %.0f %.0f'
local rows = {}
local function row_of(key)
  if not rows[key] then
    local found = redis.call('GET', key) or '0 0 0 0 0 0'
    local row = {string.match(found, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')}
    if not row[1] then error(key .. ' holds something else than an account') end
    for place = 1, 6 do row[place] = tonumber(row[place]) end
    rows[key] = row
  end
  return rows[key]
end
local function keep(key, row, ttl)
  local text = string.format(form, unpack(row))
  if ttl == '-' then redis.call('SET', key, text) else redis.call('SET', key, text, 'PX', ttl) end
end
local function balances(answer, last)
  for number = 1, last do
    answer[#answer + 1] = string.format(form, unpack(row_of(KEYS[number])))
  end
  return table.concat(answer, ' ')
end
local last = #KEYS - 1
local call = KEYS[#KEYS]
"""

# Given: the most that can be counted, seconds to know the call for, the amount, and for each
# account its limits and its life. Answer: the account and meter that are short, and the rows.
_RESERVE = _script("""
local most = tonumber(given[1])
local amount = {tonumber(given[3]), tonumber(given[4]), tonumber(given[5])}
for number = 1, last do row_of(KEYS[number]) end
if redis.call('EXISTS', call) == 1 then return balances({0, 0}, last) end
local held = {}
for number = 1, last do
  local key = KEYS[number]
  local row = rows[key]
  held[key] = held[key] or {0, 0, 0}
  for meter = 1, 3 do
    local limit = math.min(tonumber(given[5 + (number - 1) * 4 + meter]) or most, most)
    -- By subtraction, because a sum past the most would be rounded.
    local room = limit - row[meter] - row[meter + 3] - held[key][meter]
    if room < amount[meter] then return balances({number, meter}, last) end
  end
  for meter = 1, 3 do held[key][meter] = held[key][meter] + amount[meter] end
end
for number = 1, last do
  local key = KEYS[number]
  if held[key] then
    for meter = 1, 3 do rows[key][meter + 3] = rows[key][meter + 3] + held[key][meter] end
    held[key] = nil
  end
  keep(key, rows[key], given[5 + number * 4])
end
redis.call('SET', call, 'held', 'PX', given[2])
return balances({0, 0}, last)
""")

# Given: the most, how long to know the call for, and for each booking what was held, what was
# spent, and the account's life.
_SETTLE = _script("""
local most = tonumber(given[1])
for number = 1, last do row_of(KEYS[number]) end
local state = redis.call('GET', call)
if state == 'settled' then return balances({}, last) end
for number = 1, last do
  local row, first = rows[KEYS[number]], 2 + (number - 1) * 7
  for meter = 1, 3 do
    if state ~= 'undone' then
      row[meter + 3] = math.max(row[meter + 3] - given[first + meter], 0)
    end
    row[meter] = math.min(math.max(row[meter] + given[first + 3 + meter], 0), most)
  end
  keep(KEYS[number], row, given[first + 7])
end
redis.call('SET', call, 'settled', 'PX', given[2])
return balances({}, last)
""")

# Given: how long to know the call for, what was held, and for each account its life. One that
# never came is noted too, so that it holds nothing when it comes late.
_UNDO = _script("""
for number = 1, last do row_of(KEYS[number]) end
local state = redis.call('GET', call)
if state == 'held' then
  for number = 1, last do
    local row = rows[KEYS[number]]
    for meter = 1, 3 do row[meter + 3] = math.max(row[meter + 3] - given[1 + meter], 0) end
    keep(KEYS[number], row, given[4 + number])
  end
end
if state ~= 'settled' then redis.call('SET', call, 'undone', 'PX', given[1]) end
return state or ''
""")

_READ = _script("""
return balances({}, #KEYS)
""")


class Writer:
    """Writes operations as calls of scripts.

    Args:
        prefix: Begins every key, as its hash tag.
        remember: Seconds for which a settled call is known again.
    """

    def __init__(self, prefix: str, *, remember: float) -> None:
        self._prefix, self._remember = f"{{{prefix}}}:", _milliseconds(remember)

    def command(self, operation: Operation) -> Command:
        """The call for an operation that is identified."""
        match operation:
            case Reserve(accounts, amount, at, call):
                known = self._remember if call.startswith(_MADE_UP) else _milliseconds(HOLD)
                numbers: list[int | None] = [MOST, known, *counts(amount)]
                for one in accounts:
                    numbers += [*limits(one), _life(one, at)]
                return Command(_RESERVE, self._keys(accounts, call), _joined(numbers))
            case Settle(call, bookings, at):
                numbers = [MOST, self._remember]
                for booking in bookings:
                    numbers += [*counts(booking.held), *counts(booking.spent)]
                    numbers.append(_life(booking.account, at))
                keys = self._keys([booking.account for booking in bookings], call)
                return Command(_SETTLE, keys, _joined(numbers))
            case Read(accounts):
                return Command(_READ, self._keys(accounts), "")
            case _:
                assert_never(operation)

    def undo(self, reserve: Reserve) -> Command:
        lives = [_life(one, reserve.at) for one in reserve.accounts]
        numbers = _joined([self._remember, *counts(reserve.amount), *lives])
        return Command(_UNDO, self._keys(reserve.accounts, reserve.id), numbers)

    def _keys(self, accounts: Iterable[Account], call: str | None = None) -> tuple[str, ...]:
        keys = [f"{self._prefix}account:{named(one.key)}" for one in accounts]
        return (*keys, f"{self._prefix}call:{named(call)}") if call is not None else tuple(keys)


def identified(operation: Operation) -> Operation:
    """With an id, so that it can be sent again: an answer may get lost on its way."""
    if isinstance(operation, Read) or operation.id:
        return operation
    return replace(operation, id=_MADE_UP + uuid4().hex)


def read_answer(operation: Operation, answer: Any) -> Any:
    """What the script of `operation` said, as the operation's answer.

    Raises:
        StoreError: It is no answer of ours.
    """
    numbers = _numbers(answer)
    if isinstance(operation, Reserve):
        (number, meter), rows = numbers[:2], numbers[2:]
        short = (number - 1, METERS[meter - 1]) if number else None
        return Reserved(_balances(rows), short)
    return _balances(numbers)


def _balances(numbers: Sequence[int]) -> tuple[Any, ...]:
    return tuple(balance(tuple(numbers[at : at + 6])) for at in range(0, len(numbers), 6))


def _numbers(answer: Any) -> list[int]:
    try:
        return [int(number) for number in answer.split()]
    except (AttributeError, ValueError):
        raise StoreError("redis answered a script with something else than numbers") from None


def _joined(numbers: Iterable[int | None]) -> str:
    return " ".join(["-" if number is None else str(number) for number in numbers])


def _life(account: Account, at: float) -> int | None:
    """Milliseconds until the account may be forgotten; by the caller's clock, not by Redis'."""
    if account.expires is None:
        return None
    return _milliseconds(max(account.expires - at, 0.0) + _SLACK)


def _milliseconds(seconds: float) -> int:
    return ceil(seconds * 1000)
