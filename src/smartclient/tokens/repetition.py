"""Which text is sent again and again, and what it costs, from requests one by one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from .boilerplate_report import BoilerplateReport
from .counting import SHARED, Endpoint, Tokenizers, as_body, count, endpoint_of
from .encodings import bare_name
from .parts import Part, parts, pieces_of
from .repetition_rows import Piece, Text, rows, shortest_ttl

if TYPE_CHECKING:
    from .fitting import CatalogLike

__all__ = ["Boilerplate", "boilerplate"]

_Payload: TypeAlias = Mapping[str, Any] | str | bytes
_PIECES = 128  # of a text that are looked at
_SMALLEST = 64


class _State(Struct):
    """Where a request is being read."""

    prefix: int
    tokens: int = 0
    broken_at: str | None = None
    before: str | None = None


class Boilerplate:
    """Finds repeated text in requests that it is given one by one, within bounded memory.

    Not for several threads at once. Nothing of a text is kept but a digest, its length in
    tokens, and how it begins.

    Args:
        model: Of requests that do not name theirs.
        size: Texts that are remembered; the one unseen for longest is forgotten.
        excerpt: Characters by which a text is shown in the report, at most 200.
        min_tokens: Shorter texts are left out of the report.
        catalog: Prices and times to live; `None` takes ours.
        tokenizers: What counts the texts.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        size: int = 20_000,
        excerpt: int = 60,
        min_tokens: int = 20,
        catalog: CatalogLike = None,
        tokenizers: Tokenizers = SHARED,
    ) -> None:
        if size < _SMALLEST:
            raise ValueError(f"size must be at least {_SMALLEST} texts, not {size!r}")
        if not 0 <= excerpt <= 200:
            raise ValueError(f"excerpt must be 0 to 200 characters, not {excerpt!r}")
        from ..catalog import catalog_of  # not what everyone who counts needs

        self._catalog, self._tokenizers = catalog_of(catalog), tokenizers
        self._model, self._size = model, size
        self._excerpt, self._min_tokens = excerpt, min_tokens
        self._texts: OrderedDict[tuple[str, str], Text] = OrderedDict()
        self._pieces: OrderedDict[tuple[str, str], Piece] = OrderedDict()
        self._prefixes: OrderedDict[int, None] = OrderedDict()
        self._ends: OrderedDict[int, int] = OrderedDict()  # of whole requests: conversations
        self._num_requests = self._num_skipped = self._num_forgotten = 0
        self._tokens = self._num_conversations = self._forgotten_history = 0
        self._first_at: float | None = None
        self._last_at: float | None = None

    def add(self, payload: _Payload, *, at: datetime | float | None = None) -> bool:
        """Take in one request.

        Args:
            payload: Its body, as a mapping or as JSON.
            at: When it was sent, in seconds since 1970 or as a `datetime`.

        Returns:
            Whether it was one of a known format, and its model known.
        """
        body = as_body(payload)
        model = (body.get("model") if isinstance(body, Mapping) else None) or self._model
        if not isinstance(body, Mapping) or not isinstance(model, str):
            self._num_skipped += 1
            return False
        endpoint = endpoint_of(body, bare_name(model))
        if endpoint == "text":
            self._num_skipped += 1
            return False
        seconds = at.timestamp() if isinstance(at, datetime) else at
        if seconds is not None:
            self._first_at = min(seconds, seconds if self._first_at is None else self._first_at)
            self._last_at = max(seconds, seconds if self._last_at is None else self._last_at)
        self._num_requests += 1
        self._read(list(parts(endpoint, body)), model, endpoint, seconds)
        return True

    def report(self, *, period: float | None = None) -> BoilerplateReport:
        """What was repeated until now.

        Args:
            period: Seconds in which the requests were sent; `None` takes the time from the
                first to the last, where times were given.

        Raises:
            ValueError: The period is not above 0.
        """
        if period is not None and not period > 0:
            raise ValueError(f"period must be above 0 s, not {period!r}")
        if period is None and self._first_at is not None and self._last_at is not None:
            period = self._last_at - self._first_at or None
        found, history = rows(
            self._texts,
            self._pieces,
            period=period,
            has_times=self._first_at is not None,
            min_tokens=self._min_tokens,
            catalog=self._catalog,
        )
        return BoilerplateReport(
            repeated=found,
            num_requests=self._num_requests,
            num_skipped=self._num_skipped,
            period=period,
            tokens=self._tokens,
            history_tokens=history + self._forgotten_history,
            num_forgotten=self._num_forgotten,
        )

    def _read(self, found: list[Part], model: str, endpoint: Endpoint, at: float | None) -> None:
        digests = [_digest(part.text) for part in found]
        conversation = self._conversation(found, digests)
        state = _State(hash(model))
        for part, digest in zip(found, digests, strict=True):
            key = (model, digest)
            before, state.prefix = state.prefix, hash((state.prefix, digest))
            is_known = state.prefix in self._prefixes
            if not is_known and state.broken_at is None:
                state.broken_at = part.path
            text = self._texts.get(key)
            if text is None:
                text = self._new(part, key, endpoint, conversation)
                text.pieces = self._cut(part, model, conversation, before, state)
            else:
                self._again(text, part, conversation, is_known, state)
                text.warm += self._is_warm(text, model, at)
            state.tokens += text.tokens
            state.before = part.path
            text.num_sent += 1
            text.last_at = at if at is not None else text.last_at
            if is_known:
                text.prefix_tokens = max(text.prefix_tokens, state.tokens)
            self._remember(key, text, state.prefix)
        self._tokens += state.tokens

    def _conversation(self, found: list[Part], digests: list[str]) -> int:
        """Which conversation a request goes on with, by the messages that it begins with."""
        chain, ends = 0, []
        number: int | None = None
        for part, digest in zip(found, digests, strict=True):
            if part.kind == "message":
                chain = hash((chain, digest))
                ends.append(chain)
        for end in reversed(ends[:-1]):
            number = self._ends.pop(end, None)
            if number is not None:
                break
        if number is None:
            self._num_conversations += 1
            number = self._num_conversations
        if ends:
            self._ends[ends[-1]] = number
            _shorten(self._ends, self._size)
        return number

    def _new(self, part: Part, key: tuple[str, str], endpoint: Endpoint, conversation: int) -> Text:
        model = key[0]
        if part.value is None:
            tokens = self._count(part.text, model, "text")
        else:
            field = "input" if endpoint == "openai.responses" else "messages"
            bodies = [{field: []}, {field: [{"role": "user", "content": [part.value]}]}]
            empty, whole = (self._count(body, model, endpoint) for body in bodies)
            tokens = whole - empty
        return Text(part.kind, part.path, self._begin(part.text), tokens, conversation)

    def _again(
        self,
        text: Text,
        part: Part,
        conversation: int,
        is_known: bool,
        state: _State,
    ) -> None:
        text.is_shared = text.is_shared or text.conversation != conversation
        if is_known:
            text.num_prefixed += 1
        else:
            is_itself = state.broken_at == part.path
            text.after = state.before if is_itself else state.broken_at

    def _is_warm(self, text: Text, model: str, at: float | None) -> bool:
        """Whether a cache would still hold what was sent the time before."""
        ttl = shortest_ttl(self._catalog.model(model))
        if at is None or text.last_at is None or ttl is None:
            return False
        return at - text.last_at <= ttl[1]

    def _cut(
        self, part: Part, model: str, conversation: int, prefix: int, state: _State
    ) -> tuple[str, ...]:
        """The pieces of a new text, each noted as standing in one more."""
        if part.value is not None or part.kind == "tool":
            return ()
        found: dict[str, None] = {}  # in order
        newest = ""
        last: Piece | None = None
        for words in pieces_of(part.text, _PIECES):
            digest = _digest(words)
            if digest in found:
                continue
            prefix = hash((prefix, digest))
            piece = self._pieces.get((model, digest))
            if piece is None:
                tokens = self._count(words, model, "text")
                piece = Piece(part.kind, part.path, self._begin(words), tokens, conversation)
            is_known = prefix in self._prefixes
            self._prefixes[prefix] = None
            piece.seen_in(conversation, is_known, part.path, state.broken_at)
            piece.preceded_by(newest)
            if last is not None:
                last.followed_by(digest)
            self._pieces[model, digest] = piece
            self._pieces.move_to_end((model, digest))
            found[digest], newest, last = None, digest, piece
        if last is not None:
            last.followed_by("")
        _shorten(self._pieces, 2 * self._size)
        return tuple(found)

    def _remember(self, key: tuple[str, str], text: Text, prefix: int) -> None:
        self._texts[key] = text
        self._texts.move_to_end(key)
        self._prefixes[prefix] = None
        self._prefixes.move_to_end(prefix)
        _shorten(self._prefixes, 4 * self._size)
        while len(self._texts) > self._size:
            (model, _), gone = self._texts.popitem(last=False)
            self._num_forgotten += 1
            self._forgotten_history += gone.history
            for digest in gone.pieces:
                piece = self._pieces.get((model, digest))
                if piece is not None:
                    piece.num_sent += gone.num_sent

    def _count(self, payload: Any, model: str, endpoint: Endpoint) -> int:
        counted = count(payload, model=model, endpoint=endpoint, tokenizers=self._tokenizers)
        return counted.p50

    def _begin(self, text: str) -> str:
        return " ".join(text[: 4 * self._excerpt].split())[: self._excerpt]


def boilerplate(
    requests: Iterable[_Payload | tuple[datetime | float, _Payload]],
    *,
    period: float | None = None,
    model: str | None = None,
    excerpt: int = 60,
    min_tokens: int = 20,
    catalog: CatalogLike = None,
) -> BoilerplateReport:
    """Which repeated text in `requests` costs how much in a day.

    Args:
        requests: Bodies of requests, as mappings or JSON, in the order in which they were
            sent; or pairs of the time and the body.
        period: Seconds in which they were sent; `None` takes it from their times.
        model: Of requests that do not name theirs.
        excerpt: Characters by which a text is shown; 0 shows none of it.
        min_tokens: Shorter texts are left out.
        catalog: Prices and times to live; `None` takes ours.
    """
    found = Boilerplate(model=model, excerpt=excerpt, min_tokens=min_tokens, catalog=catalog)
    for one in requests:
        at, payload = one if isinstance(one, tuple) else (None, one)
        found.add(payload, at=at)
    return found.report(period=period)


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _shorten(table: OrderedDict[Any, Any], size: int) -> None:
    while len(table) > size:
        table.popitem(last=False)
