"""What tests of text share."""

from __future__ import annotations

import pytest

from server_reference.text.grammar import GrammarCompiler
from server_reference.text.tokenizer import ByteTokenizer


@pytest.fixture(scope="module")
def compiler():
    return GrammarCompiler(ByteTokenizer())
