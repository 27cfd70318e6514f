"""How a server starts, by the command line and from Python, and how it says that it cannot."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import server_reference
from server_reference.gateway.server import ServerStartError
from tests.end_to_end.raw_http import post, send
from tests.end_to_end.tiny_calls import messages


def test_a_pool_that_is_too_small_is_one_sentence():
    with pytest.raises(ServerStartError, match="kv_memory_bytes"):
        server_reference.start("tiny", kv_memory_bytes=10)


def serve(*arguments):
    command = [sys.executable, "-m", "server_reference", "serve", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def refusal(*arguments):
    """What the command says that cannot start."""
    process = serve(*arguments)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    (sentence,) = error.splitlines()
    return sentence


def test_a_port_in_use_is_one_sentence(tiny_server):
    port = tiny_server.base_url.rpartition(":")[2]

    sentence = refusal("--port", port)

    assert f"127.0.0.1:{port}" in sentence
    assert "in use" in sentence


def test_a_missing_model_file_is_one_sentence(tmp_path):
    assert "nothing.gguf" in refusal("--port", "0", "--model", str(tmp_path / "nothing.gguf"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param("--max-context 5000", "max_context=5,000 is more than the 4,096", id="models"),
        pytest.param(
            "--max-context 4096 --num-blocks 10",
            "needs 256; raise num_blocks to 256, or lower max_context to 160",
            id="pool",
        ),
        pytest.param(
            "--max-context 4096 --kv-memory-bytes 2000000",
            "needs 256; raise kv_memory_bytes to 5,592,406, or lower max_context to 1,456",
            id="memory",
        ),
        pytest.param("--block-size 5000", "block_size=5,000 is more than the context", id="block"),
    ],
)
def test_a_context_that_cannot_be_had_is_one_sentence_with_the_arithmetic(arguments, said):
    sentence = refusal("--port", "0", *arguments.split())

    assert said in sentence


def test_a_context_that_the_pool_shortens_is_told_at_start_and_can_be_had():
    process = serve("--port", "0", "--num-blocks", "10")
    try:
        url, told = process.stdout.readline().split()[-1], process.stdout.readline().strip()
        anthropic = {"anthropic-version": "2023-06-01"}
        card = send(url, "GET", "/v1/models/tiny", None, headers=anthropic).json()
        body = messages(max_tokens=card["max_tokens"], temperature=0)
        reply = post(url, "/v1/messages", body).json()

        assert told.endswith("no more than 160 tokens of it fit in; raise num_blocks to 256")
        assert card["max_tokens"] == 160
        assert sum(reply["usage"][kind] for kind in ("input_tokens", "output_tokens")) == 160
    finally:
        process.kill()
        process.communicate()


def test_a_truncated_gguf_is_one_sentence(tmp_path):
    file = tmp_path / "cut.gguf"
    file.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\x01\x00")

    assert "cut.gguf" in refusal("--port", "0", "--model", str(file))


def test_a_signal_stops_the_command():
    process = serve("--port", "0", "--num-blocks", "64", "--api-key", "k=ann")
    try:
        url = process.stdout.readline().split()[-1]
        assert post(url, "/v1/messages", messages(), key="k").status == 200

        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.communicate()
