from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from server_reference.checkpoints.checkpoint import Checkpoint
from server_reference.checkpoints.errors import ModelFileError


def folder(path: Path, **files: Any) -> Checkpoint:
    """A folder with these JSON files, `__` for a dot, and an ordinary `config.json`."""
    for name, value in ({"config__json": {"eos_token_id": 2}} | files).items():
        content = value if isinstance(value, str) else json.dumps(value)
        (path / name.replace("__", ".")).write_text(content)
    return Checkpoint(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "has no config.json: it is no model's folder", id="absent"),
        pytest.param("{", r"config\.json cannot be read", id="cut-short"),
        pytest.param("[1]", "should hold a JSON object", id="a-list"),
        pytest.param("[" * 100_000, r"config\.json cannot be read", id="too-deep"),
    ],
)
def test_a_folder_without_settings_is_no_model(
    tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)

    with pytest.raises(ModelFileError, match=message):
        Checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        pytest.param({}, {2}, id="of-the-model"),
        pytest.param({"eos_token_id": 7}, {2, 7}, id="one-more"),
        pytest.param({"eos_token_id": [7, 8, None]}, {2, 7, 8}, id="several"),
    ],
)
def test_turns_end_with_what_any_of_the_settings_name(
    tmp_path: Path, generation: dict[str, Any], expected: set[int]
) -> None:
    checkpoint = folder(tmp_path, generation_config__json=generation)

    assert checkpoint.eos_token_ids == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"tokenizer_config__json": {"chat_template": "a"}}, "a", id="settings"),
        pytest.param({"chat_template__json": {"chat_template": "b"}}, "b", id="json"),
        pytest.param(
            {"chat_template__jinja": "c", "tokenizer_config__json": {"chat_template": "a"}},
            "c",
            id="a-file-of-its-own-wins",
        ),
        pytest.param(
            {
                "tokenizer_config__json": {
                    "chat_template": [
                        {"name": "tool_use", "template": "t"},
                        {"name": "default", "template": "d"},
                    ]
                }
            },
            "d",
            id="several",
        ),
        pytest.param(
            {"tokenizer_config__json": {"chat_template": [{"template": "t"}, 5]}},
            None,
            id="several-without-names",
        ),
    ],
)
def test_a_template_is_found_wherever_folders_have_it(
    tmp_path: Path, files: dict[str, Any], expected: str | None
) -> None:
    assert folder(tmp_path, **files).chat_template == expected


@pytest.mark.parametrize("token", ["<s>", {"content": "<s>", "lstrip": False}])
def test_special_tokens_are_texts_or_objects(tmp_path: Path, token: Any) -> None:
    checkpoint = folder(tmp_path, tokenizer_config__json={"bos_token": token, "eos_token": None})

    assert checkpoint.special_token("bos_token") == "<s>"
    assert checkpoint.special_token("eos_token") == ""


def test_an_index_says_which_tensors_a_file_holds(tmp_path: Path) -> None:
    places = {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-1.safetensors"}
    checkpoint = folder(tmp_path, **{"model.safetensors.index__json": {"weight_map": places}})
    for name in set(places.values()):
        (tmp_path / name).touch()

    assert checkpoint.shards() == {
        tmp_path / "model-1.safetensors": ["a", "c"],
        tmp_path / "model-2.safetensors": ["b"],
    }


@pytest.mark.parametrize(
    ("index", "message"),
    [
        pytest.param(None, r"has neither model\.safetensors nor", id="no-weights"),
        pytest.param({"metadata": {}}, "has no weight_map", id="no-map"),
        pytest.param({"weight_map": []}, "has no weight_map", id="a-list"),
        pytest.param("{", "index.json cannot be read", id="cut-short"),
        pytest.param({"weight_map": {"a": "../x.safetensors"}}, "no file of this folder", id="up"),
        pytest.param({"weight_map": {"a": "/etc/passwd"}}, "no file of this folder", id="absolute"),
        pytest.param({"weight_map": {"a": "b/x.safetensors"}}, "no file of this", id="below"),
        pytest.param({"weight_map": {"a": ".."}}, "no file of this folder", id="dots"),
        pytest.param({"weight_map": {"a": ""}}, "no file of this folder", id="empty"),
        pytest.param({"weight_map": {"a": "x\0y"}}, "no file of this folder", id="nul"),
        pytest.param({"weight_map": {"a": "x" * 5000}}, "no file of this folder", id="long"),
        pytest.param({"weight_map": {"a": 3}}, "puts 'a' into '3'", id="a-number"),
        pytest.param(
            {"weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors"}},
            r"lacks 2 of its 2 shards \(x-1\.safetensors",
            id="absent-shards",
        ),
    ],
)
def test_an_index_that_cannot_be_followed_is_refused(
    tmp_path: Path, index: Any, message: str
) -> None:
    files = {} if index is None else {"model.safetensors.index__json": index}

    with pytest.raises(ModelFileError, match=message):
        folder(tmp_path, **files).shards()
