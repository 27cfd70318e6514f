"""What calls may use: a limit per window, per tag, and one inside another."""

from __future__ import annotations

from .budget import Budget, Downgrade, budgets_of
from .state import BudgetState

__all__ = ["Budget", "BudgetState", "Downgrade", "budgets_of"]
