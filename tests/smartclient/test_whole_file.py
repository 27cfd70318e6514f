"""Who reads a file sees what it was, or all that it became."""

from __future__ import annotations

import pytest

from smartclient._whole_file import replacing


def test_what_is_written_takes_the_place_of_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    with replacing(path) as file:
        file.write("new\n")
        assert path.read_text() == "old"

    assert path.read_bytes() == b"new\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_one_alone(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write("half")
        raise ZeroDivisionError

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
