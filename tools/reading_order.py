"""Write the table of the engine's reading order: `python -m tools.reading_order`.

The order is the list here; numbers, lines and descriptions come from the files.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

__all__ = ["ORDER", "PACKAGES", "PAGE", "ROOT", "counts", "main", "render"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "reading-the-engine.md"
PACKAGES = ("kv", "models", "engine")
_TABLE = re.compile(r"^\| \| file \|.*?(?=^[^|]|\Z)", re.MULTILINE | re.DOTALL)
_HEAD = "| | file | lines | its job |\n| ---: | --- | ---: | --- |\n"

ORDER = """
    engine/engine engine/step engine/scheduler
    kv/block_pool kv/prefix_cache
    engine/fair_queue engine/admission engine/pacing engine/trace engine/books
    engine/batch_builder engine/model_runner
    models/transformer models/rope models/linear
    engine/attention_backends engine/cpu_attention engine/tiled_attention engine/kv_mirror
    engine/sampler engine/draw engine/candidates engine/noise engine/whole_rows
    engine/logit_rules engine/logprobs engine/rules engine/grammar engine/speculation
    engine/output engine/detokenizer
    kv/memory engine/pool_size
    models/load models/registry models/tiny models/families models/errors
    models/gguf models/gguf_blocks models/gguf_models
    models/checkpoint models/safetensors models/checkpoint_models
    models/quantized models/numerics models/weight_cache
    models/tokenizer models/tokenizer_files models/control_tokens models/chat_template
    """.split()
"""A step from its beginning to its text, then what it runs on. A file that is not here is last."""


def counts(root: Path = ROOT) -> dict[str, int]:
    """Lines of every file of the three packages, by its path, such as `kv/block_pool.py`."""
    base = root / "server_reference"
    files = sorted(file for part in PACKAGES for file in (base / part).glob("*.py"))
    return {
        file.relative_to(base).as_posix(): len(file.read_bytes().splitlines()) for file in files
    }


def render(page: str, root: Path = ROOT) -> str:
    """The page with its table anew."""
    lines = counts(root)
    known = [f"{name}.py" for name in ORDER if f"{name}.py" in lines]
    known += [path for path in lines if path not in known and not path.endswith("__init__.py")]
    rows = [
        f"| {number} | `{path}` | {lines[path]} | {_job(root / 'server_reference' / path)} |\n"
        for number, path in enumerate(known, 1)
    ]
    return _TABLE.sub(lambda _: _HEAD + "".join(rows), page)


def _job(file: Path) -> str:
    """The first sentence of its docstring, without the dot."""
    told = ast.get_docstring(ast.parse(file.read_text())) or ""
    return told.partition("\n")[0].rstrip(".").replace("|", "\\|")


def main() -> int:
    """Write the page."""
    PAGE.write_text(render(PAGE.read_text()))
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
