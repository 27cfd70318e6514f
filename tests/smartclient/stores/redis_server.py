"""A redis-server of a test's own: on a free port of this machine, in memory, ended with it."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time

import redis

__all__ = ["RedisServer", "is_there"]


def is_there():
    return shutil.which("redis-server") is not None


class RedisServer:
    """Keeps nothing on disk, so that one that is killed has lost all."""

    def __init__(self, folder, *options):
        self._folder, self._options, self._process = folder, options, None
        for turns_left in (2, 1, 0):  # others look for free ports too
            self.port = free_port()
            try:
                self.start()
                break
            except AssertionError:
                if not turns_left:
                    raise
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self._folder)]
        log = (self._folder / "redis.log").open("a")
        with log:
            self._process = subprocess.Popen(
                [*command, *self._options], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._wait_until_it_answers()

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        self._process.wait()

    def freeze(self):
        """Let it answer nothing, with its connections open, until it is thawed."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self._process.send_signal(signal.SIGCONT)

    def client(self, **options):
        return redis.Redis(port=self.port, **options)

    def _wait_until_it_answers(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                    probe.sendall(b"*1\r\n$4\r\nPING\r\n")
                    if probe.recv(1):
                        return
            except OSError:
                assert self._process.poll() is None, (self._folder / "redis.log").read_text()
                assert time.monotonic() < deadline, "redis-server did not start"
                time.sleep(0.01)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
