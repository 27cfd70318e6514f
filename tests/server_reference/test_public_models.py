from __future__ import annotations

import math

import pytest

from server_reference.models.transformer import weight_shapes
from server_reference.public_models import PUBLIC_MODELS

PARAMETERS = {
    "SmolLM2-135M": 134_515_008,
    "Llama-3-8B": 8_030_261_248,
    "Mistral-7B": 7_248_023_552,
    "Qwen2-7B": 7_615_616_512,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-8B": 8_190_735_360,
    "Gemma-3-1B": 999_885_952,
}
"""As the models' pages on huggingface.co count them."""


@pytest.mark.parametrize("name", PUBLIC_MODELS)
def test_a_model_has_as_many_parameters_as_its_page_says(name):
    shapes = weight_shapes(PUBLIC_MODELS[name])

    assert sum(math.prod(shape) for shape in shapes.values()) == PARAMETERS[name]
