"""The file of what was learned."""

from __future__ import annotations

import json
import os

import pytest

from smartclient.tokens import calibration_file
from smartclient.tokens.calibration_file import FORMAT, read, write

ROW = ["anthropic", "claude-opus-5", "text", 1.0, 2.5]


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "calibration.json"

    write(path, [ROW])

    assert read(path, 2) == [(("anthropic", "claude-opus-5", "text"), [1.0, 2.5])]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b"", "no JSON", id="empty"),
        pytest.param(b"\x80binary", "no JSON", id="binary"),
        pytest.param(b"[" * 100_000, "no JSON", id="deep"),
        pytest.param(b"[]", "its format is 'list'", id="list"),
        pytest.param(b'{"format": "other"}', "its format is 'other'", id="foreign"),
        pytest.param(json.dumps({"format": FORMAT}).encode(), "no list", id="no-lessons"),
    ],
)
def test_a_foreign_or_broken_file_is_refused(content, why, tmp_path):
    path = tmp_path / "calibration.json"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=why):
        read(path, 2)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        pytest.param(ROW[:-1], "has not its parts", id="too-short"),
        pytest.param("row", "has not its parts", id="no-row"),
        pytest.param([*ROW[:4], "x"], "three names and 2 numbers", id="no-number"),
        pytest.param([*ROW[:4], -1.0], "numbers from 0 to", id="below-zero"),
        pytest.param([*ROW[:4], 10**400], "numbers from 0 to", id="more-than-a-float-holds"),
        pytest.param([*ROW[:4], float("inf")], "numbers from 0 to", id="endless"),
        pytest.param([*ROW[:4], float("nan")], "three names", id="nan"),
        pytest.param([None, *ROW[1:]], "three names", id="no-name"),
    ],
)
def test_a_broken_lesson_is_refused_by_its_number(row, why, tmp_path):
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({"format": FORMAT, "lessons": [ROW, row]}))

    with pytest.raises(ValueError, match=f"lesson 1 .*{why}"):
        read(path, 2)


def test_a_file_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration_file, "_LONGEST", 100)
    path = tmp_path / "calibration.json"
    write(path, [ROW] * 10)

    with pytest.raises(ValueError, match="over 100 bytes"):
        read(path, 2)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "calibration.json"
    write(path, [ROW])

    with pytest.raises(TypeError):
        write(path, [[object()]])

    assert len(read(path, 2)) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "calibration.json", [ROW])

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        write(tmp_path / "nowhere" / "calibration.json", [ROW])
