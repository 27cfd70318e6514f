"""Vocabularies for tiktoken without any network: the truth that counts are compared with."""

from __future__ import annotations

import gzip
from functools import partial
from importlib.metadata import distribution

import pytest

from smartclient.tokens.vocabulary import FILES


@pytest.fixture(scope="session")
def vocabularies(tmp_path_factory):
    """A cache of tiktoken's with all that it would download."""
    folder = tmp_path_factory.mktemp("vocabularies")
    package = distribution("bpe-openai")  # not imported: that takes seconds, and warns
    for encoding in ("o200k_base", "cl100k_base"):
        packed = package.locate_file(f"bpe_openai/data/{encoding}.tiktoken.gz")
        (folder / FILES[encoding].name).write_bytes(gzip.decompress(packed.read_bytes()))
    return folder


@pytest.fixture(scope="session")
def truth(vocabularies):
    """What tiktoken itself counts, by encoding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(vocabularies))
        import tiktoken

        found = {name: tiktoken.get_encoding(name) for name in FILES}
    return {name: partial(_count, encoding) for name, encoding in found.items()}


def _count(encoding, text):
    return len(encoding.encode_ordinary(text))
