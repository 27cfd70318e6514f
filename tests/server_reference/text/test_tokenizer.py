from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import pre_tokenizers

from server_reference.checkpoints.gguf import GgufFile
from server_reference.checkpoints.tokenizer_files import gguf_tokenizer
from server_reference.text.tokenizer import BpeTokenizer, ByteTokenizer, Tokenizer
from tests.server_reference.checkpoints.gguf_files import TOKENS, write_gguf
from tests.server_reference.conftest import Peer
from tests.server_reference.text.texts import decoded, encoded

STRINGS = json.loads((Path(__file__).parents[2] / "data" / "strings.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> BpeTokenizer:
    return gguf_tokenizer(GgufFile(write_gguf(tmp_path_factory.mktemp("gguf") / "small.gguf")))


@pytest.fixture(scope="module")
def smollm2(smollm2_gguf: Path) -> BpeTokenizer:
    return gguf_tokenizer(GgufFile(smollm2_gguf))


@pytest.fixture(params=["bytes", "small"])
def either(request: pytest.FixtureRequest, small: BpeTokenizer) -> Tokenizer:
    return ByteTokenizer() if request.param == "bytes" else small


@pytest.mark.parametrize(
    "text", ["", "hello world", "é 漢字 😀", "\x00\x7f\xa0\xad", "a\n\n  b", "<|im_end|>"]
)
def test_text_survives_the_way_there_and_back(either: Tokenizer, text: str) -> None:
    assert decoded(either, either.encode(text)) == text


def test_control_tokens_in_text_are_characters(either: Tokenizer) -> None:
    ids = either.encode("<|im_start|>x<|im_end|>")

    assert not set(ids) & set(either.control_tokens.ids.values())


def test_control_tokens_have_no_text(either: Tokenizer) -> None:
    control = list(either.control_tokens.ids.values())

    assert [either.token_bytes(token_id) for token_id in control] == [b""] * len(control)
    assert decoded(either, control) == ""


def test_ids_that_are_no_tokens_have_no_text(either: Tokenizer) -> None:
    assert either.token_bytes(either.vocab_size) == b""
    assert either.token_bytes(-1) == b""


def test_lone_surrogates_become_question_marks(either: Tokenizer) -> None:
    assert decoded(either, either.encode("a\ud800b")) == "a?b"


def test_the_end_of_a_turn_ends_it(either: Tokenizer) -> None:
    assert either.control_tokens.ids["<|im_end|>"] in either.eos_token_ids
    assert either.control_tokens.ids["<|im_start|>"] not in either.eos_token_ids


def test_pairs_are_merged(small: BpeTokenizer) -> None:
    assert [TOKENS[at] for at in small.encode("hello  w")] == ["hello", "Ġ", "Ġw"]


def test_user_defined_tokens_are_found_in_any_text(small: BpeTokenizer) -> None:
    ids = small.encode("hello<tool>")

    assert [TOKENS[at] for at in ids] == ["hello", "<tool>"]
    assert decoded(small, ids) == "hello<tool>"


@pytest.mark.smollm2
def test_smollm2_has_transformers_ids(smollm2: BpeTokenizer, transformers_smollm2: Peer) -> None:
    assert len(STRINGS["any_cut"]) == 200

    ours = [smollm2.encode(text) for text in STRINGS["any_cut"]]

    theirs = transformers_smollm2.tokenizer(STRINGS["any_cut"], add_special_tokens=False)
    assert ours == theirs.input_ids


@pytest.mark.smollm2
def test_smollm2_has_transformers_ids_once_that_cuts_digits_off_too(
    smollm2: BpeTokenizer, transformers_smollm2: Peer
) -> None:
    """transformers 5.24 ignores the file's pre-tokenizer `smollm`, so these differ as it is."""
    tokens = transformers_smollm2.tokenizer.backend_tokenizer
    as_it_is = tokens.pre_tokenizer
    texts = STRINGS["digits_cut_off"]
    ours = [smollm2.encode(text) for text in texts]

    tokens.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), as_it_is]
    )
    theirs = [encoding.ids for encoding in tokens.encode_batch(texts, add_special_tokens=False)]
    tokens.pre_tokenizer = as_it_is

    assert ours == theirs
    assert ours != transformers_smollm2.tokenizer(texts, add_special_tokens=False).input_ids


@pytest.mark.smollm2
def test_smollm2_parses_all_its_control_tokens(
    smollm2: BpeTokenizer, transformers_smollm2: Peer
) -> None:
    text = "x".join(smollm2.control_tokens.ids)

    ours = encoded(smollm2, text)

    assert len(smollm2.control_tokens.ids) == 17
    assert ours == transformers_smollm2.tokenizer(text, add_special_tokens=False).input_ids


@pytest.mark.smollm2
def test_smollm2_decodes_what_it_encodes(smollm2: BpeTokenizer) -> None:
    texts = STRINGS["any_cut"] + STRINGS["digits_cut_off"]

    assert [decoded(smollm2, smollm2.encode(text)) for text in texts] == texts


@pytest.mark.smollm2
def test_smollm2_gives_every_token_its_bytes(
    smollm2: BpeTokenizer, transformers_smollm2: Peer
) -> None:
    ids = range(smollm2.vocab_size)

    ours = [decoded(smollm2, [token_id]) for token_id in ids]

    theirs = [
        transformers_smollm2.tokenizer.decode([token_id], skip_special_tokens=True)
        for token_id in ids
    ]
    assert ours == theirs


def test_a_long_text_becomes_the_same_tokens_as_its_lines(small: BpeTokenizer) -> None:
    line = "hello world, hello.\n"

    assert small.encode(line * 1000) == small.encode(line) * 1000


def test_no_token_is_longer_than_the_longest(either: Tokenizer) -> None:
    lengths = [len(either.token_bytes(token_id)) for token_id in range(either.vocab_size)]

    assert 1 <= max(lengths) <= either.longest_token
