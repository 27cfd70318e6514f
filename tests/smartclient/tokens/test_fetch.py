"""A vocabulary, fetched because it was asked for."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Thread

import pytest

from smartclient.tokens import DownloadError, download
from smartclient.tokens.vocabulary import FILES, cached_file

NAME = FILES["o200k_base"].name


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def serve():
    """A server that sends each of its pieces to the first who asks, and then hangs up."""
    door = socket.create_server(("127.0.0.1", 0))
    threads = []

    def serving(*pieces, hold=None):
        def work():
            with suppress(ConnectionError), door.accept()[0] as peer:  # who may hang up early
                peer.recv(65536)
                peer.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
                for piece in pieces:
                    peer.sendall(piece)
                if hold is not None:
                    peer.recv(1)  # until the client gives up

        threads.append(Thread(target=work, daemon=True))
        threads[0].start()
        return f"http://127.0.0.1:{door.getsockname()[1]}/o200k_base.tiktoken"

    yield serving
    for thread in threads:
        thread.join(10)
    door.close()


def test_a_vocabulary_comes_into_the_cache_of_tiktoken(cache, serve, vocabularies):
    data = (vocabularies / NAME).read_bytes()

    path = download("o200k_base", url=serve(data[:1000], data[1000:])).result(20)

    assert path == cached_file("o200k_base") == cache / NAME
    assert path.read_bytes() == data
    assert list(cache.iterdir()) == [path]


def test_one_that_is_there_is_not_fetched_again(cache, vocabularies):
    cache.mkdir()
    (cache / NAME).write_bytes((vocabularies / NAME).read_bytes())

    assert download("o200k_harmony", url="http://127.0.0.1:9/").result(20) == cache / NAME


@pytest.mark.parametrize("pieces", [(), (b"<html>Blocked by your proxy</html>",)])
def test_anything_else_is_refused_and_not_kept(cache, serve, pieces):
    with pytest.raises(DownloadError, match="has not the hash"):
        download(url=serve(*pieces)).result(20)

    assert not cache.exists()


def test_a_server_that_is_silent_is_given_up(cache, serve):
    with pytest.raises(DownloadError, match="could not be fetched"):
        download(url=serve(hold=True), timeout=0.05).result(20)


def test_a_server_that_trickles_is_given_up(cache, serve, monkeypatch):
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr("smartclient.tokens.fetch.monotonic", lambda: float(next(times)))

    with pytest.raises(DownloadError, match="took longer than 15 s"):
        download(url=serve(b"x" * 200_000, b"x" * 200_000), timeout=15.0).result(20)


def test_a_body_without_end_is_given_up(cache, serve, monkeypatch):
    monkeypatch.setattr("smartclient.tokens.fetch._LARGEST", 1000)

    with pytest.raises(DownloadError, match="over 1,000 bytes"):
        download(url=serve(b"x" * 5000)).result(20)


def test_nobody_there_is_an_error_that_says_so(cache):
    with pytest.raises(DownloadError, match="could not be fetched"):
        download(url="http://127.0.0.1:9/none").result(20)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path, cache, serve, vocabularies):
    cache.write_text("a file where the folder should be")

    with pytest.raises(DownloadError, match="cannot be written"):
        download(url=serve((vocabularies / NAME).read_bytes())).result(20)


def test_a_cache_that_is_turned_off_is_an_error(monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")

    with pytest.raises(DownloadError, match="turns tiktoken's cache off"):
        download().result(20)


@pytest.mark.parametrize(
    ("given", "why"),
    [({"encoding": "p50k"}, "one of o200k_base"), ({"timeout": 0}, "above 0 s")],
)
def test_what_cannot_be_is_refused_at_once(given, why):
    with pytest.raises(ValueError, match=why):
        download(**given)
