from __future__ import annotations

from pathlib import Path

import pytest

from server_reference.downloads.cache import atomic_writer, cache_dir


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"SMARTCLIENT_CACHE": "/own"}, "/own", id="its-own-variable-wins"),
        pytest.param({"SMARTCLIENT_CACHE": ""}, "/xdg/smartclient", id="an-empty-one-does-not"),
        pytest.param({}, "/xdg/smartclient", id="xdg-cache-home"),
        pytest.param({"XDG_CACHE_HOME": "here"}, "/home/me/.cache/smartclient", id="relative"),
        pytest.param({"XDG_CACHE_HOME": ""}, "/home/me/.cache/smartclient", id="neither"),
    ],
)
def test_the_environment_says_where_the_cache_is(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    monkeypatch.delenv("SMARTCLIENT_CACHE", raising=False)
    ordinary = {"HOME": "/home/me", "XDG_CACHE_HOME": "/xdg"}
    for name, value in (ordinary | environment).items():
        monkeypatch.setenv(name, value)

    assert cache_dir() == Path(expected)


def test_a_written_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"

    with atomic_writer(path) as file:
        file.write(b"all of it")
        seen_meanwhile = path.exists()

    assert not seen_meanwhile
    assert path.read_bytes() == b"all of it"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    with pytest.raises(RuntimeError, match="midway"), atomic_writer(path) as file:
        file.write(b"half")
        raise RuntimeError("midway")

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_is_removed_and_what_is_being_written_is_not(
    tmp_path: Path,
) -> None:
    """An engine that is killed whenever it loads would fill the disk."""
    path = tmp_path / "file"
    (tmp_path / ".file-killed.part").write_bytes(b"half")
    (tmp_path / ".other-killed.part").write_bytes(b"half")

    with atomic_writer(path) as outer:
        with atomic_writer(path) as inner:
            inner.write(b"inner")
        outer.write(b"outer")

    assert path.read_bytes() == b"outer"
    assert sorted(one.name for one in tmp_path.iterdir()) == [".other-killed.part", "file"]
