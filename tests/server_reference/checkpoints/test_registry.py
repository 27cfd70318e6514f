from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from server_reference.checkpoints.errors import ModelFileError
from server_reference.checkpoints.registry import ModelUnavailableError, front, resolve
from tests.server_reference.checkpoints.gguf_files import write_gguf
from tests.server_reference.checkpoints.hub_models import CONTEXT, peer, save
from tests.server_reference.checkpoints.test_tokenizer_files import byte_level, write_folder
from tests.server_reference.text.texts import decoded


def test_tiny_needs_no_file() -> None:
    assert resolve("tiny").gguf is None


def test_a_path_is_served_under_its_stem(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "small.gguf")

    files = resolve(str(path))

    assert (files.name, files.gguf) == ("small", path)


def test_an_unknown_name_is_one_sentence_naming_the_nearest() -> None:
    with pytest.raises(ModelUnavailableError, match=r"no model 'smolm2'.*did you mean 'smollm2'"):
        resolve("smolm2")


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailableError, match=r"there is no model '.*/none\.gguf'"):
        resolve(str(tmp_path / "none.gguf"))


def test_the_front_of_tiny_encodes_a_conversation() -> None:
    tiny = front("tiny")

    ids = tiny.chat_template.encode(tiny.tokenizer, [{"role": "user", "content": "hi"}])

    assert decoded(tiny.tokenizer, ids) == "user\nhi\nassistant\n"
    assert tiny.max_context >= 2048


def test_the_front_of_a_file_has_its_template_and_context(tmp_path: Path) -> None:
    small = front(str(write_gguf(tmp_path / "small.gguf")))

    ids = small.chat_template.encode(small.tokenizer, [{"role": "user", "content": " hello "}])

    assert ids == [0, *small.tokenizer.encode("hello"), 1]
    assert (small.name, small.max_context) == ("small", 128)


@pytest.mark.parametrize("name", ["bos", "eos"])
def test_a_file_whose_named_token_is_none_has_a_front(tmp_path: Path, name: str) -> None:
    odd: Any = {f"tokenizer__ggml__{name}_token_id": 5000}

    assert front(str(write_gguf(tmp_path / "odd.gguf", **odd))).name == "odd"


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b", "~no-such-user/model"])
def test_what_can_be_no_name_is_no_model(name: str) -> None:
    with pytest.raises(ModelUnavailableError, match=r"there is no model '.{0,200}'"):
        resolve(name)


def test_a_base_model_has_no_front(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "base.gguf", without=["tokenizer.chat_template"])

    with pytest.raises(ModelFileError, match=r"base\.gguf has no chat template"):
        front(str(path))


def a_folder(path: Path) -> Path:
    """A model of two layers with a tokenizer and a template, as hubs have it."""
    write_folder(path, byte_level)
    fields = json.loads((path / "config.json").read_text())
    save(peer("llama"), path)
    made = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(made | fields))
    (path / "chat_template.jinja").write_text(
        "{{ bos_token }}{% for m in messages %}{{ m['content'] | trim }}<|im_end|>{% endfor %}"
    )
    return path


def test_the_front_of_a_folder_has_its_template_and_context(tmp_path: Path) -> None:
    small = front(str(a_folder(tmp_path / "small")))

    ids = small.chat_template.encode(small.tokenizer, [{"role": "user", "content": " hello "}])

    assert ids == [1, *small.tokenizer.encode("hello"), 3]
    assert (small.name, small.max_context) == ("small", CONTEXT)


def test_a_folder_without_a_template_has_no_front(tmp_path: Path) -> None:
    (a_folder(tmp_path / "small") / "chat_template.jinja").unlink()

    with pytest.raises(ModelFileError, match=r"small has no chat template"):
        front(str(tmp_path / "small"))


def test_a_name_of_a_hub_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    with pytest.raises(ModelUnavailableError, match=r"no folder 'org/never-there'.*from a hub"):
        resolve("org/never-there")


def test_the_front_imports_no_torch() -> None:
    code = (
        "import sys; from server_reference.checkpoints.registry import front; front('tiny');"
        "print('torch' in sys.modules)"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "False"
