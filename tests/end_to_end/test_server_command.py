"""The command `serve`: what it says where it cannot start, and how signals end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.raw_http import Stream, post
from tests.end_to_end.tiny_calls import BOTH, chat, messages


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


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_requests_under_way_finish(which):
    process = serve("--port", "0", "--num-blocks", "64")
    try:
        url = process.stdout.readline().split()[-1]
        with Stream(url, BOTH[1], chat(stream=True, max_tokens=60, ignore_eos=True)) as stream:
            stream.read_until(b"data: ")
            process.send_signal(which)
            received = stream.read_to_the_end()

        assert b"[DONE]" in received
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_signal_as_soon_as_the_command_says_where_it_is_stops_it():
    told = (
        "import io, os, signal, sys\n"
        "from server_reference.__main__ import main\n"
        "class Told(io.StringIO):\n"
        "    def write(self, text):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.stdout = Told()\n"
        "sys.exit(main(['serve', '--port', '0', '--num-blocks', '64']))"
    )

    done = subprocess.run([sys.executable, "-c", told], capture_output=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_signal_while_a_model_is_read_ends_the_command_without_a_traceback(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    process = serve("--port", "0", "--model", str(tmp_path))
    with (tmp_path / "config.json").open("wb"):  # once it is opened there, too
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)

    assert process.communicate() == ("", "")
    assert process.returncode == 130


def test_a_server_whose_words_nobody_takes_serves_all_the_same():
    command = [sys.executable, "-m", "server_reference", "serve", "--port", "0"]
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(command, stdout=full, stderr=subprocess.PIPE, text=True)
    try:
        said = process.stderr.readline()
        url = said.split()[3]

        assert said.endswith("(No space left on device)\n")
        assert post(url, BOTH[0], messages()).status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


def test_a_process_forked_from_a_servers_ends_at_once():
    """It has the server's object, but neither its thread nor its engine."""
    code = """
import os, sys, time, server_reference
with server_reference.start("tiny", num_blocks=64):
    forked, started = os.fork(), time.monotonic()
    if not forked:
        sys.exit(7)
    status = os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])
sys.exit([status, time.monotonic() - started < 8] != [7, True])
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_says_what_it_computes_in_and_how_it_sized_its_memory():
    process = serve("--port", "0", "--num-blocks", "64", "--numerics", "deterministic")
    try:
        where, *notes = (process.stdout.readline() for _ in range(4))
        process.send_signal(signal.SIGTERM)

        assert where.startswith("serving on http://")
        assert "a request of the whole context of 4,096 tokens needs 256" in notes[0]
        assert notes[1].startswith("  num_blocks=64: 64 blocks for 1,024 tokens")
        assert "tiny is computed in deterministic: bf16, 16 rows at a time; KV bf16" in notes[2]
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.communicate()
