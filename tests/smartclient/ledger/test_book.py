"""The ledger: shared by threads and processes, bounded, exact."""

from __future__ import annotations

import gc
import os
import threading
from decimal import Decimal

import pytest

from smartclient.ledger import Ledger
from smartclient.ledger.lines import encoded
from tests.smartclient.ledger.entries import NOON, a_report, an_entry

ONE = Decimal("0.00525")


def filled(calls, **options):
    ledger = Ledger(**options)
    for number in range(calls):
        ledger.add(a_report(request_id=f"req_{number}"), at=NOON + number)
    return ledger


def test_totals_are_the_sum_of_its_entries():
    ledger = filled(100)

    assert ledger.total().cost == sum(entry.cost for entry in ledger) == 100 * ONE
    assert ledger.totals()["claude-opus-5"] == ledger.total()


def test_old_entries_go_and_stay_in_the_totals():
    ledger = filled(10, size=3)

    assert [entry.request_id for entry in ledger] == ["req_7", "req_8", "req_9"]
    assert (len(ledger), ledger.dropped, ledger.total().cost) == (3, 7, 10 * ONE)


def test_a_call_ends_now_unless_it_is_said():
    ledger = Ledger()
    ledger.add(a_report())

    assert next(iter(ledger)).at > NOON - 365 * 86_400


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        pytest.param(-1, ValueError, "size must be at least 0, not -1", id="below-nothing"),
        pytest.param("9", TypeError, "size must be a number of entries, not str", id="text"),
        pytest.param(True, TypeError, "not bool", id="bool"),
    ],
)
def test_an_absurd_size_is_refused(size, error, message):
    with pytest.raises(error, match=message):
        Ledger(size=size)


def test_threads_share_it_without_losing_a_call(tmp_path):
    ledger = Ledger(tmp_path / "calls.jsonl", size=10)

    def work():
        for _ in range(200):
            ledger.add(a_report(), at=NOON)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.close()

    assert (ledger.total().calls, ledger.total().cost) == (1600, 1600 * ONE)
    assert Ledger.read(tmp_path / "calls.jsonl").total() == ledger.total()


def test_a_report_that_comes_of_a_collection_never_waits_for_the_ledger():
    """A dropped call is reported by whatever code the collector interrupts: this one too."""
    ledger = Ledger()

    class Dropped:
        def __del__(self):
            ledger.add(a_report(), at=NOON)

    with ledger._current:  # what add() and totals() hold while they work
        ring = [Dropped()]
        ring.append(ring)
        del ring
        gc.collect()

    assert ledger.total().calls == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_a_ledger_of_its_own_and_the_same_file(tmp_path):
    ledger = filled(2, path=tmp_path / "calls.jsonl")

    with ledger._current:  # held for ever, as the child sees it
        child = os.fork()
        if child == 0:
            ledger.add(a_report(), at=NOON)
            os._exit(0 if ledger.total().calls == 1 else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert ledger.total().calls == 2
    assert Ledger.read(tmp_path / "calls.jsonl").total().calls == 3


def test_after_close_it_goes_on_in_memory(tmp_path):
    with filled(1, path=tmp_path / "calls.jsonl") as ledger:
        pass
    ledger.close()
    ledger.add(a_report(), at=NOON)

    assert (ledger.total().calls, ledger.lost) == (2, 0)
    assert len((tmp_path / "calls.jsonl").read_bytes().splitlines()) == 1


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_what_is_exported_is_read_again(tmp_path, form):
    ledger = filled(3)
    ledger._current.add(an_entry(tags=("=cmd()", "b"), error="'cut", partial=True, model="-1"))

    assert ledger.export(tmp_path / "out", form) == 4

    found = Ledger.read(tmp_path / "out")
    assert list(found) == list(ledger)
    assert found.totals("tag") == ledger.totals("tag")


def test_it_is_not_exported_over_what_it_appends_to(tmp_path):
    ledger = filled(1, path=tmp_path / "calls.jsonl")

    with pytest.raises(ValueError, match="is what this ledger appends to"):
        ledger.export(tmp_path / "." / "calls.jsonl")


def test_an_unknown_format_is_refused_and_leaves_nothing_behind(tmp_path):
    with pytest.raises(ValueError, match="format must be one of jsonl, csv, not 'xml'"):
        filled(1).export(tmp_path / "out", "xml")

    assert list(tmp_path.iterdir()) == []


def test_a_file_of_something_else_is_no_ledger(tmp_path):
    (tmp_path / "notes").write_text("a\nb\n")

    with pytest.raises(ValueError, match="is no ledger: no line of it is an entry"):
        Ledger.read(tmp_path / "notes")


def test_reading_a_long_ledger_keeps_the_newest_and_adds_up_all(tmp_path):
    (tmp_path / "calls").write_bytes(encoded(an_entry(cost=ONE)) * 50)

    ledger = Ledger.read(tmp_path / "calls", size=5)

    assert (len(ledger), ledger.total().cost) == (5, 50 * ONE)


def test_what_came_while_somebody_looked_is_in_the_file_at_once(tmp_path):
    ledger = Ledger(tmp_path / "calls")

    with ledger._current:
        ledger.add(a_report(), at=NOON)

    assert (tmp_path / "calls").read_bytes().count(b"\n") == 1
