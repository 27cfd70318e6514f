"""The tokenizers of a machine, compared with tiktoken."""

from __future__ import annotations

import json
from time import monotonic

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartclient.tokens import vocabulary
from smartclient.tokens.vocabulary import FILES, LIMIT, Vocabularies, cached_file
from tests.layers import ROOT

SAME_TEXT = json.loads((ROOT / "src/smartclient/tokens/same_text.json").read_text())
SHARED = Vocabularies()

a_vocabulary = pytest.mark.parametrize("encoding", FILES)
any_text = st.text(alphabet=st.characters(codec=None, exclude_categories=[]))
ODD = [
    *("<|endoftext|>", "<|im_start|>", "\x00", "\ud800", "\ufeff", "  \n\n ", "a" * 60, "漢" * 9),
    *("é", "e\u0301", "👍🏽", "👨\u200d👩\u200d👧", "\u202e", "1234567", "don't", "I'LL", "\r\n"),
    *("\t", "/" * 5),
]
odd_text = st.lists(st.sampled_from(ODD), max_size=12).map("".join)


@pytest.fixture
def without_toktok(monkeypatch):
    monkeypatch.setattr(vocabulary, "_toktok", lambda encoding: None)


@a_vocabulary
@settings(deadline=None)
@given(text=any_text | odd_text)
def test_any_text_counts_as_tiktoken_counts_it(truth, encoding, text):
    assert SHARED.get(encoding)([text, "and another"]) == [
        truth[encoding](text),
        truth[encoding]("and another"),
    ]


@a_vocabulary
@pytest.mark.parametrize("language", SAME_TEXT)
def test_every_language_counts_as_tiktoken_counts_it(truth, encoding, language):
    text = SAME_TEXT[language]

    assert SHARED.get(encoding)([text]) == [truth[encoding](text)]


@a_vocabulary
def test_tiktoken_counts_where_its_vocabulary_is_cached(
    truth, encoding, vocabularies, monkeypatch, without_toktok
):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(vocabularies))

    count_many = Vocabularies().get(encoding)

    assert count_many(["Hello <|endoftext|>", "\ud800"]) == [
        truth[encoding]("Hello <|endoftext|>"),
        truth[encoding]("\ufffd"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" * 1_000_000, id="letters"),
        pytest.param(" " * 1_000_000, id="spaces"),  # overflows the stack of tiktoken
        pytest.param("\t " * 500_000, id="tabs"),
        pytest.param("\ud800" * 1_000_000, id="surrogates"),
        pytest.param("\x00" * 1_000_000, id="nul"),
        pytest.param("漢" * 1_000_000, id="han"),
    ],
)
@pytest.mark.parametrize("which", ["toktok", "tiktoken"])
def test_a_million_repeated_characters_take_bounded_time(which, text, vocabularies, monkeypatch):
    if which == "tiktoken":
        monkeypatch.setattr(vocabulary, "_toktok", lambda encoding: None)
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(vocabularies))
    count_many = Vocabularies().get("o200k_base")
    began = monotonic()

    (counted,) = count_many([text])

    assert 0 < counted <= len(text)
    assert monotonic() - began < 10


def test_a_long_text_counts_to_the_same_in_pieces(truth):
    text = (SAME_TEXT["English"] + "\n" + SAME_TEXT["Python"]) * 200

    assert len(text) > 2 * LIMIT
    assert SHARED.get("o200k_base")([text]) == [truth["o200k_base"](text)]


@pytest.mark.parametrize("content", [None, b"", b"<html>no vocabulary</html>"])
def test_a_missing_or_broken_file_is_no_vocabulary_and_nothing_is_fetched(
    content, tmp_path, monkeypatch, without_toktok
):
    """tiktoken would download it, without a timeout."""
    asked = []
    monkeypatch.setattr("tiktoken.load.read_file", asked.append)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    if content is not None:
        cached_file("o200k_base").write_bytes(content)

    assert Vocabularies().get("o200k_base") is None
    assert asked == []


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        pytest.param({"TIKTOKEN_CACHE_DIR": "/a"}, "/a", id="tiktoken"),
        pytest.param({"DATA_GYM_CACHE_DIR": "/b"}, "/b", id="the-older-name"),
        pytest.param({"TIKTOKEN_CACHE_DIR": "/a", "DATA_GYM_CACHE_DIR": "/b"}, "/a", id="both"),
    ],
)
def test_the_cache_is_where_tiktoken_has_it(environment, folder, monkeypatch):
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert str(cached_file("o200k_base").parent) == folder


def test_an_empty_name_turns_the_cache_off(monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")

    assert cached_file("o200k_base") is None


def test_without_the_package_tiktoken_is_asked(truth, vocabularies, monkeypatch):
    monkeypatch.setattr(vocabulary, "find_spec", lambda name: None)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(vocabularies))

    assert Vocabularies().get("o200k_base")(["Hello"]) == [truth["o200k_base"]("Hello")]


def test_a_broken_file_is_read_once(tmp_path, monkeypatch, without_toktok):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    cached_file("o200k_base").write_bytes(b"broken")
    read = []
    monkeypatch.setattr(vocabulary, "_tiktoken", read.append)
    found = Vocabularies()

    for _ in range(3):
        assert found.get("o200k_base") is None

    assert read == ["o200k_base"]


def test_who_does_not_wait_gets_the_vocabulary_later(monkeypatch):
    begun = []
    monkeypatch.setattr(vocabulary, "Thread", lambda **given: begun.append(given) or _Started())
    found = Vocabularies()

    assert found.get("o200k_base", wait=False) is None
    assert found.get("o200k_base", wait=False) is None
    assert len(begun) == 1
    for _ in range(2):  # one who waits may have come first
        begun[0]["target"](*begun[0]["args"])
    assert found.get("o200k_base", wait=False)(["Hello"]) == [1]


class _Started:
    def start(self):
        pass


def test_a_vocabulary_that_came_later_is_found(vocabularies, tmp_path, monkeypatch, without_toktok):
    found = Vocabularies()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert found.get("o200k_base") is None

    name = FILES["o200k_base"].name
    (tmp_path / name).write_bytes((vocabularies / name).read_bytes())

    assert found.get("o200k_base")(["Hello"]) == [1]
