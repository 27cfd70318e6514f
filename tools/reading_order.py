"""Write the tables of the engine's reading order: `python -m tools.reading_order`.

The order is the list here; numbers, lines and descriptions come from the files.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["BENEATH", "ORDER", "PACKAGES", "PAGE", "ROOT", "counts", "main", "render"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "reading-the-engine.md"
PACKAGES = ("kv", "models", "engine")
BENEATH = ("attention", "kernels", "checkpoints", "text")
_TABLE = re.compile(r"^\| \| file \|.*?(?=^[^|]|\Z)", re.MULTILINE | re.DOTALL)
_HEAD = "| | file | lines | its job |\n| ---: | --- | ---: | --- |\n"

ORDER = """
    engine/engine engine/step engine/scheduler
    kv/block_pool kv/prefix_cache
    engine/fair_queue engine/admission engine/pacing engine/trace engine/books
    engine/batch_builder engine/model_runner
    models/transformer models/numerics
    engine/rules engine/speculation engine/output
    kv/memory engine/pool_size engine/parts engine/graphs engine/gpu engine/device_texts
    attention/backend attention/batch
    attention/cpu_attention attention/kv_mirror attention/tiled_attention attention/triton_attention
    kernels/operations kernels/eager kernels/heads kernels/fused kernels/transfer
    kernels/linear kernels/quantized kernels/forms kernels/rope
    kernels/sampler kernels/draw kernels/candidates kernels/noise kernels/whole_rows
    kernels/logit_rules kernels/logprobs
    kernels/attention kernels/attention_kernels kernels/attention_tiles
    kernels/embedding kernels/norms kernels/rotary kernels/activation
    kernels/sampling kernels/packed_draws kernels/sampling_rules
    kernels/sampling_candidates kernels/sampling_challenge kernels/sampling_noise
    kernels/ngram
    kernels/arguments kernels/launch kernels/manifest
    kernels/aot kernels/aot_processes kernels/aot_worker kernels/aot_report
    text/tokenizer text/control_tokens text/chat_template text/detokenizer text/grammar
    checkpoints/load checkpoints/registry checkpoints/tiny checkpoints/families checkpoints/errors
    checkpoints/gguf checkpoints/gguf_blocks checkpoints/gguf_models
    checkpoints/checkpoint checkpoints/checkpoint_models
    checkpoints/weight_cache checkpoints/tokenizer_files
    """.split()
"""A step from its beginning to its text, then what it stands on. A file not here is last."""


def counts(packages: Sequence[str] = PACKAGES, root: Path = ROOT) -> dict[str, int]:
    """Lines of every file of the packages, by its path, such as `kv/block_pool.py`."""
    base = root / "server_reference"
    files = sorted(file for part in packages for file in (base / part).glob("*.py"))
    return {
        file.relative_to(base).as_posix(): len(file.read_bytes().splitlines()) for file in files
    }


def render(page: str, root: Path = ROOT) -> str:
    """The page with its two tables anew: the engine's, and that of what it stands on."""
    tables = iter(_rows(counts(packages, root), root) for packages in (PACKAGES, BENEATH))
    return _TABLE.sub(lambda _: _HEAD + next(tables), page)


def _rows(lines: dict[str, int], root: Path) -> str:
    known = [f"{name}.py" for name in ORDER if f"{name}.py" in lines]
    known += [path for path in lines if path not in known and not path.endswith("__init__.py")]
    return "".join(
        f"| {number} | `{path}` | {lines[path]} | {_job(root / 'server_reference' / path)} |\n"
        for number, path in enumerate(known, 1)
    )


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
