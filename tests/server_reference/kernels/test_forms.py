from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path

import pytest
from torch import Tensor

from server_reference.kernels.forms import row_counts


class Costly:
    """A product that does nothing but let time pass: what `cost` says of its rows."""

    in_features = out_features = 1

    def __init__(self, cost: Callable[[int], float]) -> None:
        self.now, self._cost = 0.0, cost
        self.rows: list[int] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.rows.append(len(x))
        self.now += self._cost(len(x))
        return x


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path))
    return tmp_path


def measured(few: Costly, many: Costly) -> int:
    def clock() -> float:
        return few.now + many.now

    return row_counts({"a": "int4"}, {"a": few}, {"a": many}, clock=clock)["int4 1x1"]


def by_row(rows: int) -> float:
    return 1.0 * rows


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        pytest.param(0.5, 0, id="never"),
        pytest.param(9.0, 8, id="up-to-eight"),
        pytest.param(12.5, 12, id="up-to-twelve"),
        pytest.param(1000.0, 64, id="as-far-as-is-asked"),
    ],
)
def test_few_rows_go_to_the_form_that_is_faster_for_them(cost: float, expected: int) -> None:
    assert measured(Costly(by_row), Costly(lambda rows: cost)) == expected


def test_what_slows_one_round_down_changes_nothing() -> None:
    burst = chain(repeat(100.0, 12), repeat(0.0))

    assert measured(Costly(by_row), Costly(lambda rows: 9.0 + next(burst))) == 8


def test_a_form_is_not_slower_for_fewer_rows() -> None:
    """Products of 12 and 16 rows are disturbed whenever it is their turn."""
    many = Costly(lambda rows: 100.0 if rows in (12, 16) else 9.0)

    assert measured(Costly(by_row), many) == 8


def test_more_rows_than_are_hopeless_are_not_tried() -> None:
    few = Costly(by_row)

    measured(few, Costly(lambda rows: 4.0))

    assert max(few.rows) == 6


def test_each_round_goes_through_all_products_before_one_comes_again() -> None:
    order: list[str] = []

    def product(name: str, size: int) -> Costly:
        def cost(rows: int) -> float:
            order.append(name)
            return 0.0

        one = Costly(cost)
        one.out_features = size
        return one

    few = {"a": product("few a", 1), "b": product("few b", 2)}
    many = {"a": product("many a", 1), "b": product("many b", 2)}

    row_counts({"a": "int4", "b": "int4"}, few, many, clock=lambda: 0.0)

    assert order[:5] == ["few a", "few b", "many a", "many b", "few a"]


def test_all_are_measured_where_one_is_missing() -> None:
    known, new = Costly(by_row), Costly(by_row)
    other = Costly(lambda rows: 9.0)
    measured(known, other)
    known.rows.clear()
    new.out_features = 2

    row_counts({"a": "int4", "b": "int4"}, {"a": known, "b": new}, {"a": other, "b": other})

    assert known.rows
