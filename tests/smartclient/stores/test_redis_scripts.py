"""Answers of scripts, read; what the scripts do is tested against a real Redis."""

from __future__ import annotations

import pytest

from smartclient.stores import Read, Reserve, Reserved, StoreError
from smartclient.stores.redis_scripts import Writer, identified, read_answer
from tests.smartclient.stores.contract import AT, account, balance, reserve, settle


@pytest.mark.parametrize("answer", [b"0 1 0 0 5 0", "0 1 0 0 5 0"], ids=["bytes", "text"])
def test_an_answer_is_rows_of_six(answer):
    assert read_answer(Read((account(),), AT), answer) == (balance(spent=1, held=5),)


def test_what_is_short_comes_first():
    answer = read_answer(reserve(1, account()), b"1 2 0 0 0 0 0 0")

    assert answer == Reserved((balance(),), (0, "tokens"))


@pytest.mark.parametrize("answer", [3, None, b"many", [b"1"]])
def test_what_is_no_answer_of_ours_is_an_error(answer):
    with pytest.raises(StoreError, match="something else than numbers"):
        read_answer(Read((account(),), AT), answer)


@pytest.mark.parametrize("operation", [reserve(1, account()), settle("", account())])
def test_what_has_no_id_gets_one_of_its_own(operation):
    first, second = identified(operation), identified(operation)

    assert first.id != second.id
    assert identified(first) is first


def test_an_account_without_an_end_has_no_life():
    commands = [
        Writer("app", remember=900).command(Reserve((one,), reserve(1).amount, AT, "a"))
        for one in (account(), account(expires=AT + 60), account(expires=AT - 60))
    ]

    assert [one.numbers.split()[-1] for one in commands] == ["-", "120000", "60000"]
