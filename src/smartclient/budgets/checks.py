"""What a budget cannot be, told where it is given."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from .._clock import checked_seconds, shown
from .windows import NAMES, length_of, named

if TYPE_CHECKING:
    from .budget import Budget

__all__ = ["check_budget", "check_downgrade", "check_inside", "dollars_of"]

_MOST = 2**53
"""What a double counts exactly, and so every store."""

_LONGEST = 100 * 366 * 86_400

_NANO = Decimal("0.000000001")


def dollars_of(given: Any) -> Decimal | None:
    """An amount of money from what a user writes.

    Raises:
        TypeError: It is no number.
        ValueError: It is not above 0, or no store could count it.
    """
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float, str, Decimal)):
        raise TypeError(f"dollars must be a number, not {type(given).__name__}")
    try:
        # A float as it is written: 0.1 is meant to be a tenth.
        amount = Decimal(str(float(given))) if isinstance(given, float) else Decimal(given)
    except InvalidOperation:
        raise ValueError(f"dollars must be a number such as 2.50, not {given!r:.40}") from None
    if not amount.is_finite() or not _NANO <= amount <= _MOST * _NANO:
        told = str(given) if len(str(amount)) <= 40 else f"{amount:.3e}"
        raise ValueError(
            f"dollars must be at least {_NANO:f} and at most {int(_MOST * _NANO):,}, not "
            f"{told}; to allow no call at all, make none"
        )
    return amount


def check_budget(budget: Budget, downgrade: type) -> None:
    """Raise for what cannot be, or contradicts itself."""
    if not isinstance(budget.name, str):
        raise TypeError(f"name must be text, not {type(budget.name).__name__}")
    if not 0 < len(budget.name) <= 200:
        raise ValueError(f"name must have 1 to 200 characters, not {len(budget.name):,}")
    for meter in ("tokens", "requests"):
        _check_count(meter, getattr(budget, meter))
    if budget.dollars is None and budget.tokens is None and budget.requests is None:
        raise ValueError(f"budget {budget.name!r} limits nothing; give dollars, tokens or requests")
    _check_per(budget.per)
    _check_choices(budget, downgrade)
    _check_wait(budget)
    _check_warnings(budget)
    store: Any = budget.store
    if store is not None and not all(
        hasattr(store, part) for part in ("is_quick", "do", "do_async", "changed")
    ):
        raise TypeError(f"store must be a Store, not {type(store).__name__}")


def check_downgrade(given: Any) -> None:
    """Raise for a downgrade that changes nothing, or to what cannot be."""
    if given.max_tokens is None and given.model is None:
        raise ValueError(
            "Downgrade changes nothing; give max_tokens, the fewest that an answer is cut down "
            "to, or a cheaper model"
        )
    _check_count("max_tokens", given.max_tokens)
    if given.model is not None and not isinstance(given.model, str):
        raise TypeError(f"model must be text, not {type(given.model).__name__}")
    if given.model is not None and not given.model.strip():
        raise ValueError("model must name one, not be empty")


def check_inside(inner: Budget, outer: Budget) -> None:
    """Raise where `inner` allows what `outer`, around it, never will.

    Raises:
        ValueError: Says by which meter.
    """
    if length_of(inner.per) > length_of(outer.per):
        return  # windows of the outer one add up to more
    limits: Mapping[str, tuple[Any, Any]] = {
        meter: (getattr(inner, meter), getattr(outer, meter))
        for meter in ("dollars", "tokens", "requests")
    }
    for meter, (own, around) in limits.items():
        if own is not None and around is not None and own > around:
            raise ValueError(
                f"budget {inner.name!r} allows {own:,} {meter} {named(inner.per)}, inside "
                f"{outer.name!r}, which allows {around:,} {named(outer.per)}: it can never be "
                "used up; lower the inner or raise the outer one"
            )


def _check_count(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")
    if not 1 <= value <= _MOST:
        given = f"{value:,}" if abs(value) < 10**30 else "more digits than that"
        raise ValueError(f"{name} must be at least 1 and at most {_MOST:,}, not {given}")


def _is_one_of(given: Any, *known: str) -> bool:
    return isinstance(given, str) and given in known


def _check_per(per: Any) -> None:
    if per is None or (isinstance(per, str) and per in NAMES):
        return
    if isinstance(per, bool) or not isinstance(per, (int, float)):
        raise (ValueError if isinstance(per, str) else TypeError)(
            f"per must be one of {', '.join(NAMES)}, seconds or None, not {per!r:.40}"
        )
    if not 1 <= per <= _LONGEST:
        raise ValueError(
            f"per must be at least 1 s and at most {_LONGEST:,} s, not {shown(per)}; None "
            "is one window for ever"
        )


def _check_choices(budget: Budget, downgrade: type) -> None:
    given: Any = budget.on_limit
    if not isinstance(given, downgrade) and not _is_one_of(given, "refuse", "wait"):
        raise ValueError(f'on_limit must be "refuse", "wait" or a Downgrade, not {given!r:.40}')
    if isinstance(given, downgrade) and budget.dollars is None and budget.tokens is None:
        raise ValueError(
            f"budget {budget.name!r} limits requests alone, and a shorter answer of another "
            'model is one too; give on_limit="refuse" or "wait"'
        )
    least = getattr(given, "max_tokens", None)
    if least is not None and budget.tokens is not None and least >= budget.tokens:
        raise ValueError(
            f"budget {budget.name!r} allows {budget.tokens:,} tokens, and its Downgrade no answer "
            f"below {least:,}: none could ever be cut down to fit; lower max_tokens"
        )
    if budget.on_store_failure is not None and not _is_one_of(
        budget.on_store_failure, "refuse", "allow"
    ):
        raise ValueError(
            f'on_store_failure must be "refuse" or "allow", not {budget.on_store_failure!r:.40}'
        )
    if not _is_one_of(budget.unknown_price, "refuse", "allow"):
        raise ValueError(
            f'unknown_price must be "refuse" or "allow", not {budget.unknown_price!r:.40}'
        )
    if budget.unknown_price == "allow" and budget.dollars is None:
        raise ValueError("unknown_price has no effect on a budget without dollars")
    if not isinstance(budget.per_tag, bool):
        raise TypeError(f"per_tag must be True or False, not {type(budget.per_tag).__name__}")


def _check_wait(budget: Budget) -> None:
    if budget.max_wait is None:
        return
    checked_seconds("max_wait", budget.max_wait)
    if budget.on_limit != "wait":
        raise ValueError('max_wait has no effect without on_limit="wait"')


def _check_warnings(budget: Budget) -> None:
    shares: Any = budget.warn_at
    if not isinstance(shares, tuple):
        raise TypeError(
            f"warn_at must be a list of shares, such as (0.5, 0.9), not {type(shares).__name__}"
        )
    for share in shares:
        if isinstance(share, bool) or not isinstance(share, (int, float)):
            raise TypeError(f"warn_at must hold numbers, not {type(share).__name__}")
        if not 0 < share <= 1:
            given = shown(share)
            raise ValueError(f"warn_at must hold shares above 0 and at most 1, not {given}")
    if budget.on_warning is None:
        return
    if not callable(budget.on_warning):
        raise TypeError(f"on_warning must be callable, not {type(budget.on_warning).__name__}")
    if not shares:
        raise ValueError("on_warning is never called without a share in warn_at")
