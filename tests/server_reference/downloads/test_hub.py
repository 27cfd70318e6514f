from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from server_reference.downloads.hub import fetch, is_hub_id
from server_reference.downloads.smollm2 import ModelUnavailableError

COMMIT = "1" * 40
FILES = {
    "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
    "model.safetensors": b"weights",
    "consolidated.safetensors": b"the same in another format",
    "README.md": b"words",
}


class Hub(BaseHTTPRequestHandler):
    """The three endpoints of a hub that a download needs, for one model."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        head, _, name = path.partition(f"/org/small/resolve/{COMMIT}/")
        if path == "/api/models/org/small/revision/main":
            self._answer(json.dumps({"id": "org/small", "sha": COMMIT, "siblings": []}).encode())
        elif path == f"/api/models/org/small/tree/{COMMIT}":
            listed = [
                {"type": "file", "path": name, "size": len(body), "oid": _digest(body)}
                for name, body in FILES.items()
            ]
            self._answer(json.dumps(listed).encode())
        elif head == "" and name in FILES:
            self._answer(FILES[name])
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{_digest(body)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _digest(body: bytes) -> str:
    return hashlib.sha1(body, usedforsecurity=False).hexdigest()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    import huggingface_hub.constants as constants

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_models_own_files_are_fetched_and_no_others(hub: ThreadingHTTPServer) -> None:
    folder = fetch("org/small")

    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == b"weights"


def test_what_was_fetched_is_there_without_the_hub(
    hub: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fetch("org/small")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")

    assert fetch("org/small") == folder


@pytest.mark.parametrize("name", ["org/other", "org/sm..all"])
def test_a_model_that_the_hub_has_not_is_one_sentence(hub: ThreadingHTTPServer, name: str) -> None:
    with pytest.raises(ModelUnavailableError, match=f"no folder '{name}'.*HF_TOKEN") as caught:
        fetch(name)

    assert "\n" not in str(caught.value)


def test_a_hub_out_of_reach_is_one_sentence(
    hub: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")

    with pytest.raises(ModelUnavailableError, match="cannot be fetched from a hub") as caught:
        fetch("org/small")

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("org/small-1.5B", True),
        ("tiny", False),
        ("models/small.gguf", False),
        ("./org/small", False),
        ("/org/small", False),
        ("a/b/c", False),
        ("org/", False),
    ],
)
def test_an_id_is_an_organisation_and_a_name(name: str, expected: bool) -> None:
    assert is_hub_id(name) is expected
