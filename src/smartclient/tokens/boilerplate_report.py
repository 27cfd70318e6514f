"""What repeated text costs: the rows of a boilerplate report, and the report as text."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct, to_builtins

__all__ = ["BoilerplateReport", "Repeated"]

_SHOWN = 20
_DAY = 86_400.0
_CENTS = Decimal("0.01")


class Repeated(Struct, frozen=True, kw_only=True):
    """One text that was sent more than once.

    Attributes:
        kind: A tool's definition, a system prompt, a message, or a passage: lines or sentences
            that stand in several texts which differ elsewhere.
        model: Who read it.
        path: Where it stood first, such as `system[1]`.
        digest: Tells it from other texts, also in another report.
        excerpt: How it begins; empty where excerpts are not wanted.
        tokens: Its own.
        num_sent: How often it was sent.
        tokens_per_day: What that makes in a day; `None` where no time is known.
        dollars_per_day: As uncached input; `None` where the price or the time is not known.
        cached_per_day: The same, were it in the provider's cache: written once in each time to
            live, and read in between.
        is_cacheable: Whether it stands where the cache can hold it: all before it is the same.
        obstacle: Why not.
    """

    kind: Literal["tool", "system", "message", "passage"]
    model: str
    path: str
    digest: str
    excerpt: str
    tokens: int
    num_sent: int
    tokens_per_day: float | None = None
    dollars_per_day: Decimal | None = None
    cached_per_day: Decimal | None = None
    is_cacheable: bool = False
    obstacle: str | None = None


class BoilerplateReport(Struct, frozen=True, kw_only=True):
    """Which repeated text costs how much.

    Attributes:
        repeated: By what they cost in a day, the dearest first.
        num_requests: Requests that were looked at.
        num_skipped: Others, which were none of a known format.
        period: Seconds in which they were sent; `None` where nobody said.
        tokens: Input tokens of all of them.
        history_tokens: Of these, earlier turns of a conversation that were sent again with it:
            repeated, but no boilerplate.
        num_forgotten: Texts that were dropped to stay within the memory; what they repeat
            later counts as new.
    """

    repeated: tuple[Repeated, ...]
    num_requests: int
    num_skipped: int
    period: float | None
    tokens: int
    history_tokens: int
    num_forgotten: int

    @property
    def tokens_per_day(self) -> float | None:
        """Input tokens of a day; `None` where no time is known."""
        return None if self.period is None else self.tokens * _DAY / self.period

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON; dollars as text."""
        found: dict[str, Any] = to_builtins(self)
        return found

    def __str__(self) -> str:
        lines = [self._head()]
        if self.repeated:
            lines.append(_line("$/day", "if cached", "tokens", "sent", "where", "text"))
        lines += [_row(one) for one in self.repeated[:_SHOWN]]
        left = len(self.repeated) - _SHOWN
        if left > 0:
            lines.append(f"and {left:,} more")
        if self.num_forgotten:
            lines.append(f"{self.num_forgotten:,} texts were forgotten: give a larger size")
        return "\n".join(lines)

    def _head(self) -> str:
        sent = sum(one.tokens * one.num_sent for one in self.repeated)
        within = "" if self.period is None else f" in {self.period / 3600:,.1f} hours"
        text = f"{self.num_requests:,} requests{within}, {self.tokens:,} input tokens: "
        return text + (
            f"{_share(sent, self.tokens)} repeated text, "
            f"{_share(self.history_tokens, self.tokens)} earlier turns sent again"
        )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def _row(one: Repeated) -> str:
    line = _line(
        _dollars(one.dollars_per_day),
        _dollars(one.cached_per_day),
        f"{one.tokens:,}",
        f"{one.num_sent:,}",
        one.path,
        one.excerpt or one.digest,
    )
    return line if one.obstacle is None else f"{line}\n{'':42}not cached: {one.obstacle}"


def _line(*cells: str) -> str:
    widths: Sequence[str] = (">9", ">9", ">9", ">8", "<24", "")
    return " ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _dollars(amount: Decimal | None) -> str:
    return "unknown" if amount is None else f"{amount.quantize(_CENTS)}"
