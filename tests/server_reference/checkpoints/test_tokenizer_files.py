from __future__ import annotations

import heapq
import json
import os
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import Regex, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE, WordPiece

from server_reference.checkpoints.checkpoint import Checkpoint
from server_reference.checkpoints.errors import ModelFileError
from server_reference.checkpoints.gguf import GgufFile
from server_reference.checkpoints.tokenizer_files import checkpoint_tokenizer, gguf_tokenizer
from server_reference.text.tokenizer import BpeTokenizer
from tests.server_reference.checkpoints.gguf_files import TOKENS, write_gguf
from tests.server_reference.text.many_texts import many_texts
from tests.server_reference.text.texts import decoded, encoded

ANSWERS = json.loads((Path(__file__).parents[2] / "data" / "llama_cpp_ids.json").read_text("utf-8"))

# Run by a Python that has llama-cpp-python: texts in, its ids out.
_ASK = """
import json, sys, llama_cpp
model = llama_cpp.Llama(sys.argv[1], vocab_only=True, verbose=False)
ids = [model.tokenize(text.encode(), add_bos=False, special=False) for text in json.load(sys.stdin)]
json.dump(ids, sys.stdout)
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> BpeTokenizer:
    return gguf_tokenizer(GgufFile(write_gguf(tmp_path_factory.mktemp("gguf") / "small.gguf")))


def test_digits_are_cut_off_first(small: BpeTokenizer) -> None:
    """Else the second space would belong to the digit: `Ġ`, `Ġ`, `5`."""
    assert [TOKENS[at] for at in small.encode("  5")] == ["ĠĠ", "5"]


def test_gpt2_leaves_digits_where_they_are(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "gpt2.gguf", tokenizer__ggml__pre="gpt-2")

    ids = gguf_tokenizer(GgufFile(path)).encode("  5")

    assert [TOKENS[at] for at in ids] == ["Ġ", "Ġ", "5"]


@pytest.mark.parametrize(
    ("adds", "expected"), [pytest.param(True, 0, id="asked"), pytest.param(False, None, id="not")]
)
def test_a_start_token_is_named_only_when_the_file_asks_for_it(
    tmp_path: Path, adds: bool, expected: int | None
) -> None:
    path = write_gguf(tmp_path / "bos.gguf", tokenizer__ggml__add_bos_token=adds)

    assert gguf_tokenizer(GgufFile(path)).bos_token_id == expected


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        pytest.param("tokenizer__ggml__model", "bert", "of kind 'bert'", id="word-pieces"),
        pytest.param("tokenizer__ggml__pre", "deepseek-llm", "'deepseek-llm'", id="unknown-cut"),
    ],
)
def test_another_kind_of_tokenizer_is_refused(
    tmp_path: Path, key: str, value: str, message: str
) -> None:
    changes: dict[str, Any] = {key: value}
    path = write_gguf(tmp_path / "odd.gguf", **changes)

    with pytest.raises(ModelFileError, match=message) as caught:
        gguf_tokenizer(GgufFile(path))

    assert "odd.gguf" in str(caught.value)


@pytest.mark.smollm2
def test_smollm2_has_llama_cpps_ids_of_texts_of_all_kinds(smollm2_gguf: Path) -> None:
    tokenizer = gguf_tokenizer(GgufFile(smollm2_gguf))
    assert len(ANSWERS["texts"]) == 504

    assert [tokenizer.encode(text) for text in ANSWERS["texts"]] == ANSWERS["ids"]


def test_smollm2_has_llama_cpps_ids_of_ten_thousand_texts(smollm2_gguf: Path) -> None:
    """Needs llama.cpp, which is compiled; the 504 answers above run everywhere."""
    python = os.environ.get("SMARTCLIENT_PEERS")
    if python is None:
        pytest.skip("SMARTCLIENT_PEERS names no Python that has llama-cpp-python")
    tokenizer, texts = gguf_tokenizer(GgufFile(smollm2_gguf)), list(many_texts(10_000))

    asked = subprocess.run(
        [python, "-c", _ASK, str(smollm2_gguf)],
        input=json.dumps(texts), capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert [tokenizer.encode(text) for text in texts] == json.loads(asked.stdout)


@pytest.mark.parametrize("name", ["bos", "eos", "eot"])
def test_a_named_token_beyond_the_vocabulary_is_passed_over(tmp_path: Path, name: str) -> None:
    odd: Any = {f"tokenizer__ggml__{name}_token_id": 5000, "tokenizer__ggml__add_bos_token": True}
    path = write_gguf(tmp_path / "odd.gguf", **odd)

    tokenizer = gguf_tokenizer(GgufFile(path))

    assert tokenizer.bos_token_id == (None if name == "bos" else 0)
    assert tokenizer.eos_token_ids == {1}


def test_a_byte_that_is_no_token_is_left_out_and_nothing_merged_across_it(tmp_path: Path) -> None:
    """`l` `é` `l` would else become `ll`: é is 0xC3 0xA9."""
    tokens = [
        token if token not in "\u00c3\u00a9" else f"<{at}>" for at, token in enumerate(TOKENS)
    ]
    path = write_gguf(tmp_path / "small.gguf", tokenizer__ggml__tokens=tokens)

    ids = gguf_tokenizer(GgufFile(path)).encode("l\u00e9l ll")

    assert [tokens[at] for at in ids] == ["l", "l", "\u0120", "ll"]


@pytest.mark.parametrize(
    ("cut", "text", "expected"),
    [
        pytest.param("llama-bpe", "a 12345", ["a", " ", "123", "45"], id="three-digits"),
        pytest.param("qwen2", "ab 123", ["ab", " ", "1", "2", "3"], id="one-digit"),
        pytest.param("llama-bpe", "DON'T", ["DON", "'T"], id="endings-in-capitals"),
        pytest.param("gpt-2", "DON'T", ["DON", "'", "T"], id="endings-in-small-letters-only"),
        pytest.param("qwen2", "x\n\n  y", ["x", "\n\n", " ", " y"], id="ends-of-lines"),
    ],
)
def test_text_is_cut_as_the_file_says(
    tmp_path: Path, cut: str, text: str, expected: list[str]
) -> None:
    """Where every two neighbours merge, the tokens are the pieces that it was cut into."""
    letters = [token for token in TOKENS if len(token) == 1]
    pieces = sorted(
        {
            piece[:end].replace(" ", "\u0120").replace("\n", "\u010a")
            for piece in expected
            for end in range(2, len(piece) + 1)
        },
        key=len,
    )
    tokens = letters + pieces
    path = write_gguf(
        tmp_path / "cut.gguf",
        tokenizer__ggml__pre=cut,
        tokenizer__ggml__tokens=tokens,
        tokenizer__ggml__token_type=[1] * len(tokens),
        tokenizer__ggml__merges=[f"{piece[:-1]} {piece[-1]}" for piece in pieces],
    )
    tokenizer = gguf_tokenizer(GgufFile(path))

    assert [tokenizer.token_bytes(at).decode() for at in tokenizer.encode(text)] == expected


def sentencepieces() -> tuple[list[str], list[float], list[int]]:
    """A vocabulary with scores: three control tokens, all bytes, letters, and pieces of them."""
    control = ["<unk>", "<s>", "</s>"]
    in_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = [*"abcdehilnorstuw \u00e9\u6f22", "\u2581"]
    joined = (
        "_t he in re on _a er _the is at _he ll ello _hello aa aaa aaaa __ ____ _w _wor or wor bb"
    )
    pieces = joined.replace("_", "\u2581").split()
    tokens = [*control, *in_bytes, *pieces, *(one for one in letters if one != " ")]
    scores = [0.0] * 259 + [-float(at) for at in range(len(tokens) - 259)]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    return tokens, scores, kinds


def by_hand(text: str) -> list[int]:
    """SentencePiece's way, plainly: merge the best-scored neighbours, the leftmost of equals."""
    tokens, scores, _ = sentencepieces()
    ids = {token: at for at, token in enumerate(tokens)}
    parts = list("\u2581" + text.replace(" ", "\u2581")) if text else []
    while True:
        found: list[tuple[float, int]] = [
            (-scores[ids[a + b]], at) for at, (a, b) in enumerate(pairwise(parts)) if a + b in ids
        ]
        if not found:
            break
        _, at = heapq.nsmallest(1, found)[0]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [
        at
        for part in parts
        for at in ([ids[part]] if part in ids else [3 + byte for byte in part.encode()])
    ]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> BpeTokenizer:
    tokens, scores, kinds = sentencepieces()
    path = write_gguf(
        tmp_path_factory.mktemp("spm") / "spm.gguf",
        tokenizer__ggml__model="llama",
        tokenizer__ggml__tokens=tokens,
        tokenizer__ggml__scores=scores,
        tokenizer__ggml__token_type=kinds,
        tokenizer__ggml__bos_token_id=1,
        tokenizer__ggml__eos_token_id=2,
    )
    return gguf_tokenizer(GgufFile(path))


@pytest.mark.parametrize(
    "text",
    ["hello world", "", " ", "    the  \u6f22\u5b57", "aaaaaaa bbb", "<s>x</s>", "\u2581he\n"],
)
def test_sentencepieces_are_merged_by_their_scores(scored: BpeTokenizer, text: str) -> None:
    ids = scored.encode(text)

    assert ids == by_hand(text)
    assert decoded(scored, ids) == (" " + text.replace("\u2581", " ") if text else "")


def test_sentencepieces_of_many_texts_are_those_of_the_plain_way(scored: BpeTokenizer) -> None:
    texts = list(many_texts(400, seed=1))

    assert [scored.encode(text) for text in texts] == [by_hand(text) for text in texts]


def test_a_file_of_sentencepieces_starts_every_prompt_unless_it_says_not(
    scored: BpeTokenizer,
) -> None:
    assert scored.bos_token_id == 1
    assert scored.eos_token_ids == {2}


Make = Callable[[tokenizers.Tokenizer], None]


def byte_level(backend: tokenizers.Tokenizer) -> None:
    pattern = Regex(r"\p{N}{1,3}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+")
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pattern, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.normalizer = normalizers.NFC()
    backend.decoder = decoders.ByteLevel()


def metaspace(backend: tokenizers.Tokenizer) -> None:
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    _spaced(backend)


def prepended(backend: tokenizers.Tokenizer) -> None:
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    _spaced(backend)


def _spaced(backend: tokenizers.Tokenizer) -> None:
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )


SPECIAL = ["<unk>", "<s>", "</s>", "<|im_end|>"]


def write_folder(folder: Path, make: Make) -> Path:
    """A folder with a tokenizer that was trained on texts of all kinds, as hubs have it."""
    backend = tokenizers.Tokenizer(BPE(byte_fallback=make is not byte_level, unk_token="<unk>"))
    make(backend)
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=SPECIAL
        + [f"<0x{byte:02X}>" for byte in range(256)] * (make is not byte_level),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if make is byte_level else [],
        show_progress=False,
        limit_alphabet=300,
    )
    backend.train_from_iterator([text[:40] for text in many_texts(600, seed=2)], trainer)
    settings = json.loads(backend.to_str())
    kept = [one for one in settings["added_tokens"] if one["content"] in SPECIAL]
    backend = tokenizers.Tokenizer.from_str(json.dumps(settings | {"added_tokens": kept}))
    backend.add_tokens(["<tool>"])
    backend.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
    backend.enable_truncation(5)
    folder.mkdir()
    backend.save(str(folder / "tokenizer.json"))
    names = {
        "bos_token": "<s>",
        "eos_token": {"__type": "AddedToken", "content": "</s>"},
        "unk_token": "<unk>",
    }
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names})
    )
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 3}))
    return folder


MAKES = pytest.mark.parametrize("make", [byte_level, metaspace, prepended])


@MAKES
def test_a_folders_tokenizer_has_transformers_ids(tmp_path: Path, make: Make) -> None:
    from transformers import AutoTokenizer

    folder = write_folder(tmp_path / "model", make)
    theirs: Any = AutoTokenizer.from_pretrained(folder)
    texts = [f"{text}<|im_end|>{text[:5]}<tool> x" for text in many_texts(400, seed=3)]

    tokenizer = checkpoint_tokenizer(Checkpoint(folder))
    ours = [encoded(tokenizer, text) for text in texts]

    assert ours == theirs(texts, add_special_tokens=False, truncation=False).input_ids


@MAKES
def test_a_folders_control_tokens_in_text_are_characters(tmp_path: Path, make: Make) -> None:
    tokenizer = checkpoint_tokenizer(Checkpoint(write_folder(tmp_path / "model", make)))

    ids = tokenizer.encode("<s>a<|im_end|></s>", follows=True)

    assert not set(ids) & set(tokenizer.control_tokens.ids.values())
    assert decoded(tokenizer, ids).lstrip() == "<s>a<|im_end|></s>"
    assert set(tokenizer.control_tokens.ids) == set(SPECIAL)
    assert tokenizer.bos_token_id == 1
    assert tokenizer.eos_token_ids == {2, 3}


STRAY = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<none>", "type_id": 0}}],
    "pair": [],
    "special_tokens": {},
}


def odd(change: dict[str, Any]) -> str:
    """A byte-level tokenizer of one token, with a change to its file."""
    backend = tokenizers.Tokenizer(BPE({"a": 0}, []))
    backend.decoder = decoders.ByteLevel()
    return json.dumps(json.loads(backend.to_str()) | change)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "has no tokenizer.json", id="none"),
        pytest.param("{", "tokenizer.json cannot be read", id="no-json"),
        pytest.param('{"version": "1.0"}', "tokenizer.json cannot be used", id="incomplete"),
        pytest.param(
            tokenizers.Tokenizer(WordPiece({"[UNK]": 0}, unk_token="[UNK]")).to_str(),
            "supported are ByteLevel and ByteFallback",
            id="word-pieces",
        ),
        pytest.param(
            odd({"model": {"type": "BPE", "vocab": {"a": 2**29}, "merges": []}}),
            "536,870,912; at most",
            id="a-huge-id",
        ),
        pytest.param(
            odd({"post_processor": STRAY}),
            "tokenizer.json cannot be used: no entry",
            id="a-token-that-is-none",
        ),
    ],
)
def test_a_tokenizer_that_cannot_be_used_is_refused(
    tmp_path: Path, content: str | None, message: str
) -> None:
    (tmp_path / "config.json").write_text('{"eos_token_id": 3}')
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)

    with pytest.raises(ModelFileError, match=message):
        checkpoint_tokenizer(Checkpoint(tmp_path))
