"""A budget, as a user states it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from time import time
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from ..stores import Account, MemoryStore, Read, Store
from .checks import check_budget, check_downgrade, dollars_of
from .state import BudgetState
from .windows import Per

if TYPE_CHECKING:
    from .counters import Book

__all__ = ["Budget", "Downgrade", "budgets_of"]


class Downgrade(Struct, frozen=True, kw_only=True):
    """Ask for less where there is no room: a shorter answer first, then a cheaper model.

    Args:
        max_tokens: The answer may be cut down to as many output tokens as fit, but to no
            fewer than these; `None` leaves its length.
        model: What is asked instead; `None` keeps the model.

    Raises:
        ValueError: Neither is given, or one cannot be.
    """

    max_tokens: int | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        check_downgrade(self)


class Budget(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """How much calls may use together. Two budgets are the same only if they are one object.

    Args:
        name: Under which the store keeps it, and messages speak of it: budgets of one name
            in one store share their accounts.
        dollars: Most dollars in a window.
        tokens: Most tokens in a window, of input and output together.
        requests: Most calls in a window.
        per: The window: `minute`, `hour`, `day` or `month` in UTC, or seconds; `None` is one
            window for ever. A call counts in the window in which it began.
        per_tag: Each tag has the whole of it to itself, and so have calls without one.
        on_limit: What becomes of a call without room: `refuse` it, let it `wait`, or a
            `Downgrade`.
        max_wait: Seconds that a call waits at most; `None` for as long as it may take, which
            is its `timeout.total`.
        warn_at: Shares of a limit at which to warn, once in each window.
        on_warning: Is given the `BudgetState` instead of the log.
        store: Where it is counted; `None` counts in this process, for this budget alone.
        on_store_failure: What becomes of a call while the store cannot be reached: `refuse` or
            `allow`; `None` refuses where dollars are limited.
        unknown_price: What becomes of a call whose price is unknown, where dollars are
            limited; `allow` counts it as free.

    Raises:
        TypeError: An argument of another type.
        ValueError: One that cannot be, or that contradicts another.
    """

    name: str = "budget"
    dollars: Decimal | float | str | None = None
    tokens: int | None = None
    requests: int | None = None
    per: Per = None
    per_tag: bool = False
    on_limit: Literal["refuse", "wait"] | Downgrade = "refuse"
    max_wait: float | None = None
    warn_at: tuple[float, ...] = (0.8,)
    on_warning: Callable[[BudgetState], None] | None = None
    store: Store | None = None
    on_store_failure: Literal["refuse", "allow"] | None = None
    unknown_price: Literal["refuse", "allow"] = "refuse"

    def __post_init__(self) -> None:
        force_setattr(self, "dollars", dollars_of(self.dollars))
        if isinstance(self.warn_at, (list, tuple)):
            force_setattr(self, "warn_at", tuple(self.warn_at))
        check_budget(self, Downgrade)
        force_setattr(self, "warn_at", tuple(sorted(set(self.warn_at))))
        if self.store is None:
            force_setattr(self, "store", MemoryStore())

    @property
    def nanodollars(self) -> int | None:
        """Its dollars, as stores count them."""
        return int(self.dollars * 1_000_000_000) if isinstance(self.dollars, Decimal) else None

    @property
    def is_open_on_failure(self) -> bool:
        """Whether calls go on uncounted while the store cannot be reached."""
        if self.on_store_failure is None:
            return self.dollars is None
        return self.on_store_failure == "allow"

    @cached_property
    def book(self) -> Book:
        """Its accounts, and who waits for them in this process."""
        from .counters import Book

        return Book(self)

    def state(self, tag: str | None = None, *, at: float | None = None) -> BudgetState:
        """How it stands, asked of the store by blocking.

        Args:
            tag: Whose account, where each tag has its own; `None`: that of no tag.
            at: In which window, in Unix seconds; `None`: now.

        Raises:
            StoreError: The store cannot be reached.
        """
        account, store = self._account(tag, at)
        (balance,) = store.do(Read((account,), time() if at is None else at))
        return self.book.state(tag, account, balance)

    async def state_async(self, tag: str | None = None, *, at: float | None = None) -> BudgetState:
        """The same, by awaiting."""
        account, store = self._account(tag, at)
        (balance,) = await store.do_async(Read((account,), time() if at is None else at))
        return self.book.state(tag, account, balance)

    def left(self, tag: str | None = None, *, at: float | None = None) -> Mapping[str, float]:
        """What is left, by meter: `dollars`, `tokens`, `requests`; those that it limits."""
        return self.state(tag, at=at).left

    def _account(self, tag: str | None, at: float | None) -> tuple[Account, Store]:
        if tag is not None and not self.per_tag:
            raise ValueError(
                f"budget {self.name!r} counts all tags together; ask without a tag, or make it "
                "with per_tag=True"
            )
        assert self.store is not None  # made when none was given
        return self.book.counter(tag).account_at(time() if at is None else at), self.store


def budgets_of(given: Sequence[Budget]) -> tuple[Budget, ...]:
    """The budgets of a client, each once.

    Raises:
        TypeError: They are no list of budgets.
        ValueError: One of them is there twice.
    """
    budgets: Any = given
    if isinstance(budgets, Budget) or not isinstance(budgets, (list, tuple)):
        raise TypeError(f"budgets must be a list of Budget, not {type(budgets).__name__}")
    for number, one in enumerate(budgets):
        if not isinstance(one, Budget):
            raise TypeError(f"budgets must hold Budget, not {type(one).__name__}")
        if any(one is other for other in budgets[:number]):
            raise ValueError(f"budget {one.name!r} is given twice, and would count all twice")
    return tuple(budgets)
