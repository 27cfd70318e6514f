"""What sets a family apart reaches the engine: windows, scales and caps over paged blocks."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pytest

from server_reference.checkpoints.load import load
from server_reference.config import EngineConfig
from server_reference.core import GenerateRequest, SamplingParams
from server_reference.engine.engine import Engine
from tests.server_reference.checkpoints.hub_models import IDS, peer, save
from tests.server_reference.checkpoints.test_tokenizer_files import byte_level, write_folder
from tests.server_reference.models.dense import greedy
from tests.server_reference.text.texts import decoded

LENGTHS = {"long": 30, "shorter": 25, "short": 5}


@pytest.mark.parametrize("name", ["mistral", "qwen2-windows", "gemma2", "gemma2-scale", "gemma3"])
def test_a_family_says_in_a_batch_what_it_says_alone(tmp_path: Path, name: str) -> None:
    """Prompts longer than the window, in chunks, with a prefix in common."""
    write_folder(tmp_path / "small", byte_level)
    save(peer(name), tmp_path / "small")
    config = EngineConfig(
        model=str(tmp_path / "small"), dtype="fp32", numerics="deterministic",
        block_size=4, num_blocks=64, max_step_tokens=16, max_prefill_share=8,
    )  # fmt: skip
    model = load(config)
    ends = model.tokenizer.eos_token_ids
    engine = Engine(model, config)

    for key, length in LENGTHS.items():
        params = SamplingParams(max_tokens=12, temperature=0)
        request = GenerateRequest(id=key, tenant="", prompt_token_ids=IDS[:length], params=params)
        engine.add(request)
    updates = [update for _ in range(60) for update in engine.step()]
    texts = {key: "".join(update.text for update in updates if update.id == key) for key in LENGTHS}

    alone = {key: greedy(model.transformer, IDS[:length], 12) for key, length in LENGTHS.items()}
    until = {key: takewhile(lambda at: at not in ends, ids) for key, ids in alone.items()}
    assert texts == {key: decoded(model.tokenizer, ids) for key, ids in until.items()}
