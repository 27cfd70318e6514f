"""A ledger's file: whole lines, whoever else writes, and whatever becomes of the disk."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from smartclient.ledger import Ledger
from smartclient.ledger.appending import Appender
from smartclient.ledger.lines import encoded
from tests.smartclient.ledger.entries import NOON, a_report, an_entry

LINE = encoded(an_entry())
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(
    not FULL.exists() or not stat.S_ISCHR(FULL.stat().st_mode), reason="no /dev/full here"
)
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)


def test_a_line_is_in_the_file_at_once(tmp_path):
    Ledger(tmp_path / "calls").add(a_report(), at=NOON)

    assert (tmp_path / "calls").read_bytes().startswith(b'{"at":1795953600.0,"tags":[],')


def test_a_line_goes_behind_what_others_wrote_since(tmp_path):
    first, second = Appender(tmp_path / "calls"), Appender(tmp_path / "calls")
    for one in (first, second, first):
        one.append(an_entry())

    assert (tmp_path / "calls").read_bytes() == LINE * 3


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("no-such-folder/calls", id="no-folder"),
        pytest.param(".", id="a-folder"),
        pytest.param("locked/calls", id="may-not", marks=as_root),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_at_the_door(tmp_path, where):
    (tmp_path / "locked").mkdir(mode=0o500)

    with pytest.raises(OSError, match=r"the ledger cannot be written .*; name a file in a folder"):
        Ledger(tmp_path / where)


def test_a_file_of_something_else_is_never_appended_to(tmp_path):
    (tmp_path / "notes").write_text("dear diary")

    with pytest.raises(ValueError, match="has 10 bytes of something else than a ledger"):
        Ledger(tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "dear diary"


@pytest.mark.parametrize("length", [1, 5, 6, 20])
def test_the_very_first_line_may_have_been_cut(tmp_path, length):
    (tmp_path / "calls").write_bytes(LINE[:length])

    Ledger(tmp_path / "calls").add(a_report(), at=NOON)

    assert Ledger.read(tmp_path / "calls").total().calls == 1


@pytest.mark.parametrize("length", [1, 20, len(LINE) - 1])
def test_a_line_that_a_crash_cut_costs_only_itself(tmp_path, length):
    (tmp_path / "calls").write_bytes(LINE + LINE[:length])

    Ledger(tmp_path / "calls").add(a_report(), at=NOON)

    found = Ledger.read(tmp_path / "calls")
    assert found.total().calls == 2 + (length == len(LINE) - 1)
    assert found.unreadable == (length < len(LINE) - 1)


def test_a_line_glued_to_the_rest_of_another_is_found(tmp_path):
    """Another process was cut off, and this one could not know."""
    (tmp_path / "calls").write_bytes(LINE + LINE[:50] + LINE)

    assert Ledger.read(tmp_path / "calls").total().calls == 2


@needs_full
def test_a_full_disk_is_told_once_and_calls_go_on(caplog):
    ledger = Ledger(FULL)
    for _ in range(3):
        ledger.add(a_report(), at=NOON)

    assert (ledger.total().calls, ledger.lost) == (3, 3)
    told = [one.getMessage() for one in caplog.records]
    assert told == [
        "the ledger /dev/full cannot be written: No space left on device; calls go on, and what "
        "is lost is counted"
    ]


def test_a_disk_with_room_again_says_what_was_lost(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    one, write = Appender(tmp_path / "calls"), os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:30]))
    one.append(an_entry())
    monkeypatch.undo()
    one.append(an_entry())
    one.append(an_entry())

    assert (tmp_path / "calls").read_bytes() == LINE[:30] + b"\n" + LINE * 2
    assert one.lost == 1
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "only a part of the line was written; calls go on, and what is lost is counted",
        "1",
    ]


def test_processes_append_to_one_file(tmp_path):
    code = (
        "import sys; from smartclient.ledger.appending import Appender;"
        "from tests.smartclient.ledger.entries import an_entry; from pathlib import Path;"
        "one = Appender(Path(sys.argv[1]));"
        "[one.append(an_entry(request_id='r' * 150)) for _ in range(300)]"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "calls")]
    running = [subprocess.Popen(command) for _ in range(3)]

    assert [one.wait() for one in running] == [0, 0, 0]
    found = Ledger.read(tmp_path / "calls")
    assert (found.total().calls, found.unreadable) == (900, 0)
