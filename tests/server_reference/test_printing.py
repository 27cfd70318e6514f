"""A command whose output is read by another, which may stop reading."""

from __future__ import annotations

import subprocess
import sys

from server_reference.printing import print_lines

ENDLESS = """
from itertools import count
from server_reference.printing import print_lines
print_lines(map(str, count()))
"""


def test_a_reader_that_has_seen_enough_ends_it_without_a_word():
    command = [sys.executable, "-c", ENDLESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout.readline() == b"0\n"
        started.stdout.close()

        assert (started.stderr.read(), started.wait()) == (b"", 0)


def test_where_there_is_no_output_nothing_is_printed(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)  # as Python has it where its shell closed it

    print_lines(["one"])


def test_what_is_read_to_its_end_is_all_of_it(capsys):
    print_lines(["one", "two"])

    assert capsys.readouterr().out == "one\ntwo\n"
