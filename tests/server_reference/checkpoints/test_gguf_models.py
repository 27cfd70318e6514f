from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from server_reference.checkpoints.errors import ModelFileError
from server_reference.checkpoints.gguf import GgufFile
from server_reference.checkpoints.gguf_models import config_of, weights_of
from server_reference.models.transformer import Transformer
from tests.server_reference.checkpoints.converted import convert
from tests.server_reference.checkpoints.gguf_files import TOKENS, tensors, write_gguf
from tests.server_reference.checkpoints.hub_models import IDS, MODELS, peer, their_logits
from tests.server_reference.conftest import Peer
from tests.server_reference.models.dense import all_logits
from tests.server_reference.models.test_transformer import state_dict

HUB_ONLY = {"llama-yarn-scales", "gemma2-scale"}
"""GGUF has no fields for YaRN's two scales, and tells Gemma's by the number of layers only."""


def test_measures_come_from_the_metadata(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "small.gguf", llama__rope__freq_base=50_000.0)

    config = config_of(GgufFile(path))

    assert (config.num_layers, config.hidden_size, config.intermediate_size) == (2, 64, 96)
    assert (config.num_q_heads, config.num_kv_heads, config.head_dim) == (4, 2, 16)
    assert (config.vocab_size, config.max_context) == (len(TOKENS), 128)
    assert (config.rope_theta, config.tie_embeddings) == (50_000.0, True)
    assert config.rms_norm_eps == pytest.approx(1e-5)


def test_the_head_is_read_where_the_file_has_one(tmp_path: Path) -> None:
    head = np.ones((len(TOKENS), 64), np.float32)
    file = GgufFile(write_gguf(tmp_path / "small.gguf", extra={"output.weight": head}))

    config = config_of(file)
    weights = weights_of(file, config, torch.float32)

    assert not config.tie_embeddings
    assert torch.equal(weights["head"], torch.from_numpy(head))


def test_interleaved_rows_are_put_back_into_halves(tmp_path: Path) -> None:
    file = GgufFile(write_gguf(tmp_path / "small.gguf"))

    weights = weights_of(file, config_of(file), torch.float32)

    q = torch.from_numpy(tensors()["blk.0.attn_q.weight"])
    second_head = torch.cat((q[16:32:2], q[17:32:2]))
    assert torch.equal(weights["layers.0.qkv"][16:32], second_head)


def test_weights_come_in_the_dtype_asked_for_and_run(tmp_path: Path) -> None:
    file = GgufFile(write_gguf(tmp_path / "small.gguf"))
    config = config_of(file)

    weights = weights_of(file, config, torch.bfloat16)

    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
    assert Transformer(config, weights).dtype == torch.bfloat16


YARN = {"llama__rope__scaling__type": "yarn", "llama__rope__scaling__factor": 2.0}
SHORT_ROPE = {"rope_freqs.weight": np.ones(5, np.float32)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"architecture": "phi3"}, "architecture 'phi3'", id="other-family"),
        pytest.param({"llama__rope__scaling__type": "longrope"}, "'longrope'", id="scaled-rope"),
        pytest.param({"llama__rope__scaling__type": "linear"}, "'llama.*factor'", id="no-factor"),
        pytest.param({"llama__rope__dimension_count": 8}, "rotates 8 of the 16", id="partial-rope"),
        pytest.param({"without": ["llama.block_count"]}, "'llama.block_count'", id="no-measure"),
        pytest.param({"without": ["token_embd.weight"]}, "token_embd", id="no-embedding"),
        pytest.param({"extra": SHORT_ROPE}, "5 rope factors for heads of 16", id="rope-factors"),
        pytest.param({"llama__attention__head_count_kv": 3}, "multiple of num_kv", id="groups"),
        pytest.param({"llama__block_count": 0}, "num_layers must be positive", id="no-layers"),
        pytest.param(
            {"llama__block_count": 2**31}, "num_hidden_layers is 2,147,483,648, ", id="too-many"
        ),
        pytest.param(
            {"llama__context_length": 2**31}, "max_position_embeddings is 2,147", id="too-long"
        ),
        pytest.param({"llama__rope__freq_base": math.inf}, "rope_theta must be positive", id="inf"),
        pytest.param(YARN | {"llama__rope__freq_base": 1.0}, "above 1 for yarn", id="no-turns"),
        pytest.param(
            YARN | {"llama__rope__scaling__original_context_length": 0}, "original_context", id="0"
        ),
        pytest.param(
            YARN | {"llama__rope__scaling__yarn_attn_factor": math.nan}, "attention_f", id="nan"
        ),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = write_gguf(tmp_path / "odd.gguf", **changes)

    with pytest.raises(ModelFileError, match=message) as caught:
        config_of(GgufFile(path))

    assert str(caught.value).count("odd.gguf") == 1


BIAS = {"blk.0.attn_q.bias": np.zeros(64, np.float32)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"llama__block_count": 3}, r"lacks 9 .*\(blk\.2\.attn_k\.weight", id="layer"),
        pytest.param({"extra": BIAS}, r"no place for \(blk\.0\.attn_q\.bias\)", id="bias"),
        pytest.param(
            {"llama__feed_forward_length": 80},
            r"'blk\.0\.ffn_gate\.weight' has the shape \[96, 64\].*\[80, 64\]",
            id="shape",
        ),
    ],
)
def test_tensors_that_do_not_fit_the_measures_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    file = GgufFile(write_gguf(tmp_path / "odd.gguf", **changes))

    with pytest.raises(ModelFileError, match=message):
        weights_of(file, config_of(file), torch.float32)


@pytest.mark.parametrize("name", sorted(MODELS.keys() - HUB_ONLY))
def test_a_family_has_the_same_weights_and_measures_as_from_its_folder(
    tmp_path: Path, name: str
) -> None:
    model = peer(name)
    file = GgufFile(convert(model, tmp_path / "small.gguf"))
    config = config_of(file)

    ours = all_logits(Transformer(config, weights_of(file, config, torch.float32)), IDS)

    torch.testing.assert_close(ours, their_logits(model), atol=1e-4, rtol=0)


# Run by a Python that has llama-cpp-python: token ids in, logits out.
_ASK = """
import json, sys, llama_cpp, numpy
model = llama_cpp.Llama(sys.argv[1], n_ctx=64, logits_all=True, verbose=False)
ids = json.load(sys.stdin)
model.eval(ids)
numpy.save(sys.argv[2], model.scores[: len(ids)])
"""


@pytest.mark.parametrize(
    "name", ["llama", "llama-linear", "llama-llama3", "llama-yarn", "qwen3", "gemma2", "gemma3"]
)
def test_logits_are_llama_cpps(tmp_path: Path, name: str) -> None:
    """Up to its cache of keys and values in fp16, and within a twentieth of their spread."""
    python = os.environ.get("SMARTCLIENT_PEERS")
    if python is None:
        pytest.skip("SMARTCLIENT_PEERS names no Python that has llama-cpp-python")
    path, answer = convert(peer(name), tmp_path / "small.gguf"), tmp_path / "logits.npy"

    command = [python, "-c", _ASK, str(path), str(answer)]
    subprocess.run(command, input=json.dumps(IDS), text=True, check=True, capture_output=True)
    file = GgufFile(path)
    config = config_of(file)
    ours = all_logits(Transformer(config, weights_of(file, config, torch.float32)), IDS)

    np.testing.assert_allclose(ours.numpy(), np.load(answer), atol=0.1, rtol=0)


@pytest.mark.parametrize(
    ("layers", "scale"), [pytest.param(2, 16**-0.5, id="usual"), pytest.param(62, 0.1, id="27B")]
)
def test_the_largest_gemma_scales_scores_by_its_width(
    tmp_path: Path, layers: int, scale: float
) -> None:
    measures: dict[str, Any] = {
        "block_count": layers,
        "embedding_length": 400,
        "feed_forward_length": 80,
        "context_length": 64,
        "attention__head_count": 4,
        "attention__key_length": 16,
        "attention__layer_norm_rms_epsilon": 1e-6,
    }
    changes = {f"gemma3__{key}": value for key, value in measures.items()}

    config = config_of(
        GgufFile(write_gguf(tmp_path / "small.gguf", architecture="gemma3", **changes))
    )

    assert config.attention_scale == pytest.approx(scale)


@pytest.mark.smollm2
def test_every_tensor_of_smollm2_equals_transformers(
    smollm2_gguf: Path, transformers_smollm2: Peer
) -> None:
    file = GgufFile(smollm2_gguf)
    config = config_of(file)

    ours = state_dict(config, weights_of(file, config, torch.float32))

    theirs = transformers_smollm2.model.state_dict()
    assert set(ours) == set(theirs)
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
