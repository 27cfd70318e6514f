"""From texts and pieces that were seen to the rows of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from .boilerplate_report import Repeated
from .parts import PartKind

if TYPE_CHECKING:
    from ..catalog import Catalog, ModelFacts

__all__ = ["Piece", "Text", "rows", "shortest_ttl"]

_DAY = 86_400.0
_Key = tuple[str, str]
"""A model, and the digest of a text."""


class Text(Struct):
    """One text, and how it was sent.

    Attributes:
        conversation: The first that it was seen in.
        num_sent: How often.
        is_shared: Seen in another conversation too.
        num_prefixed: How often all before it was the same as at another time.
        prefix_tokens: Of the longest prefix that ends with it and was seen twice.
        after: What was different before it.
        warm: How often it came within the time to live of the time before.
        last_at: When it came last.
        pieces: What it is made of.
    """

    kind: PartKind
    path: str
    excerpt: str
    tokens: int
    conversation: int
    num_sent: int = 0
    is_shared: bool = False
    num_prefixed: int = 0
    prefix_tokens: int = 0
    after: str | None = None
    warm: int = 0
    last_at: float | None = None
    pieces: tuple[str, ...] = ()

    @property
    def is_history(self) -> bool:
        """A message that is sent again with its own conversation only."""
        return self.kind == "message" and not self.is_shared

    @property
    def history(self) -> int:
        """Tokens that were sent again as a part of its conversation."""
        return self.tokens * max(0, self.num_sent - 1) if self.is_history else 0


class Piece(Struct):
    """A line or a sentence, and the texts that it stands in.

    Attributes:
        conversation: The first that it was seen in.
        num_texts: Different texts that hold it.
        is_shared: Seen in another conversation too.
        num_prefixed: How often all before it was the same as at another time.
        after: What was different before it.
        num_sent: How often it was sent in texts that are forgotten by now.
        next: What follows it; empty where that varies or nothing does.
        last: What precedes it; likewise.
    """

    kind: PartKind
    path: str
    excerpt: str
    tokens: int
    conversation: int
    num_texts: int = 0
    is_shared: bool = False
    num_prefixed: int = 0
    after: str | None = None
    num_sent: int = 0
    next: str | None = None
    last: str | None = None

    def seen_in(self, conversation: int, is_known: bool, path: str, broken_at: str | None) -> None:
        """It stands in one more text, which is at `path`."""
        if self.num_texts and is_known:
            self.num_prefixed += 1
        elif self.num_texts:
            self.after = broken_at or path
        self.num_texts += 1
        self.is_shared = self.is_shared or conversation != self.conversation

    def followed_by(self, digest: str) -> None:
        self.next = digest if self.next in (None, digest) else ""

    def preceded_by(self, digest: str) -> None:
        self.last = digest if self.last in (None, digest) else ""

    @property
    def is_repeated(self) -> bool:
        return self.num_texts > 1 and (self.is_shared or self.kind == "system")


class _Scale(Struct, frozen=True):
    """What turns tokens into tokens and dollars of a day.

    Attributes:
        period: Seconds in which the requests were sent; `None` is unknown.
        facts: Of the model.
        longest: Tokens of its longest prefix that was seen twice.
    """

    period: float | None
    facts: ModelFacts | None
    longest: int

    def row(self, row: Repeated, warm: int | None) -> Repeated:
        """`row` with what it costs; `warm` of its times the cache would have held it."""
        if self.period is None:
            return row
        per_day = _DAY / self.period
        sent = row.tokens * row.num_sent
        prices = self.facts.prices if self.facts else None
        price = prices.input if prices else None
        read = prices.cache_read if prices else None
        ttl = shortest_ttl(self.facts)
        whole = None if price is None else _money(sent, price, per_day)
        cached = None
        if prices is not None and price is not None and read is not None and ttl is not None:
            name, seconds = ttl
            if warm is None:  # spread evenly, for want of times
                warm = row.num_sent - 1 if self.period / row.num_sent <= seconds else 0
            written = row.tokens * (row.num_sent - warm)
            cached = _money(written, prices.cache_write.get(name, price), per_day)
            cached += _money(row.tokens * warm, read, per_day)
        return replace(
            row, tokens_per_day=sent * per_day, dollars_per_day=whole, cached_per_day=cached
        )

    def obstacle(self, is_prefix: bool, after: str | None, *, is_passage: bool) -> str | None:
        """Why the cache cannot hold a text where it stands; `None` where it can."""
        if not is_prefix:
            return f"what is before it varies, at {after}" if after else "what is before it varies"
        if is_passage and self.facts is not None and self.facts.provider == "anthropic":
            return "the rest of its block varies: make it a block of its own"
        least = self.facts.min_cache_tokens if self.facts else None
        if least is not None and self.longest < least and not is_passage:
            return (
                f"the longest prefix that repeats has {self.longest:,} tokens, and the model "
                f"keeps none below {least:,}"
            )
        return None


def shortest_ttl(facts: ModelFacts | None) -> tuple[str, int] | None:
    """The shortest time for which a model's cache keeps a prefix: its name, and seconds."""
    ttls = facts.cache_ttls if facts else None
    return min(ttls.items(), key=lambda one: one[1]) if ttls else None


def rows(
    texts: Mapping[_Key, Text],
    pieces: Mapping[_Key, Piece],
    *,
    period: float | None,
    has_times: bool,
    min_tokens: int,
    catalog: Catalog,
) -> tuple[tuple[Repeated, ...], int]:
    """The rows of a report, the dearest first; and tokens of earlier turns sent again."""
    longest: dict[str, int] = {}
    for (model, _), text in texts.items():
        longest[model] = max(longest.get(model, 0), text.prefix_tokens)
    scales = {model: _Scale(period, catalog.model(model), most) for model, most in longest.items()}
    told = {key for key, text in texts.items() if text.num_sent > 1 and not text.is_history}
    found = [
        _of_text(key, texts[key], scales[key[0]], has_times=has_times)
        for key in told
        if texts[key].tokens >= min_tokens
    ]
    sent: dict[_Key, int] = {key: piece.num_sent for key, piece in pieces.items()}
    for key, text in texts.items():
        for digest in () if key in told else text.pieces:
            if (key[0], digest) in sent:
                sent[key[0], digest] += text.num_sent
    for keys in _passages(pieces):
        row = _of_passage(keys, pieces, sent[keys[0]], scales.get(keys[0][0]))
        if row is not None and row.tokens >= min_tokens:
            found.append(row)
    found.sort(key=_cost, reverse=True)
    return tuple(found), sum(text.history for text in texts.values())


def _cost(row: Repeated) -> tuple[Decimal, int, str]:
    return row.dollars_per_day or Decimal(0), row.tokens * row.num_sent, row.digest


def _of_text(key: _Key, text: Text, scale: _Scale, *, has_times: bool) -> Repeated:
    is_prefix = 2 * text.num_prefixed >= text.num_sent - 1
    obstacle = scale.obstacle(is_prefix, text.after, is_passage=False)
    row = Repeated(
        kind=text.kind,
        model=key[0],
        path=text.path,
        digest=key[1],
        excerpt=text.excerpt,
        tokens=text.tokens,
        num_sent=text.num_sent,
        is_cacheable=obstacle is None,
        obstacle=obstacle,
    )
    return scale.row(row, text.warm if has_times else None)


def _passages(pieces: Mapping[_Key, Piece]) -> Iterator[list[_Key]]:
    """Pieces that always follow each other, together."""

    def next_of(key: _Key) -> _Key | None:
        """What always follows `key`, and follows nothing else."""
        piece = pieces[key]
        other = pieces.get((key[0], piece.next or ""))
        if other is None or not other.is_repeated or other.last != key[1]:
            return None
        return (key[0], piece.next or "") if other.num_texts == piece.num_texts else None

    repeated = [key for key, piece in pieces.items() if piece.is_repeated]
    following = {key: next_of(key) for key in repeated}
    inside = set(following.values())
    for key in repeated:
        if key not in inside:
            chain: list[_Key] = []
            at: _Key | None = key
            while at is not None:
                chain.append(at)
                at = following[at]
            yield chain


def _of_passage(
    keys: list[_Key], pieces: Mapping[_Key, Piece], num_sent: int, scale: _Scale | None
) -> Repeated | None:
    first = pieces[keys[0]]
    if num_sent < 2 or scale is None:
        return None
    is_prefix = 2 * first.num_prefixed >= first.num_texts - 1
    obstacle = scale.obstacle(is_prefix, first.after, is_passage=True)
    row = Repeated(
        kind="passage",
        model=keys[0][0],
        path=first.path,
        digest=keys[0][1],
        excerpt=first.excerpt,
        tokens=sum(pieces[key].tokens for key in keys),
        num_sent=num_sent,
        is_cacheable=obstacle is None,
        obstacle=obstacle,
    )
    return scale.row(row, None)


def _money(tokens: int, price: Decimal, per_day: float) -> Decimal:
    return Decimal(tokens) * price / 1_000_000 * Decimal(per_day)
