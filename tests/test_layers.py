"""Which module may import which; where each third-party package may be known.

The rules are the tables that follow; `docs/explanation/architecture.md` draws them.
Standard library and pytest only, so that this runs before anything else is installed.
"""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.layers import ROOT, Import, Source, sources

# A module imports from its own line or from one above.
LINES = {
    "smartclient": """
        _call _errors _clock _observers _latch _whole_file _cache_hints wire catalog
        _flow _scope tokens stores budgets prompt_cache _bill report _token_settings ledger
        policies net
        _setting_limits _timeout_setting _settings _pipeline transports
        _request _params _verdict _stream _answer_stream _carry
        _resources
        client _wrap _http_clients testing cli
        __init__ __main__
        """,
    "server_reference": """
        config core credentials command_numbers printing
        downloads kernels kv text
        models
        checkpoints public_models roofline attention
        engine scripted
        llm processes
        api
        gateway
        explain
        __init__ __main__ pytest_plugin
        """,
}

# Beyond the lines: what is on the left knows nothing of what is on the right.
STRANGERS = {
    "smartclient": {
        "policies": "net",  # deciding is separate from doing
        "net": "policies wire _flow report",  # carries bytes, whatever they mean
        "wire": "catalog",
    },
    "server_reference": {
        "kv": "kernels",  # arithmetic on integers
        "kernels": "kv",
        "scripted": "engine processes",
    },
}

# Modules of one folder that never import each other: what one must tell another
# travels on the call.
APART = {"smartclient": ["policies"], "server_reference": []}

# A third-party package is known in these files (a name that ends in / is a folder).
PLACES = {
    "smartclient": {
        "msgspec": "",  # wherever values are defined
        "httpx": "transports/httpx.py",
        "httpx2": "transports/httpx.py",
        "httptools": "net/http1.py",
        "h2": "net/http2.py",
        "hpack": "net/http2_request.py",
        "tenacity": "policies/retry.py",
        "opentelemetry": "policies/telemetry.py",
        "tiktoken": "tokens/",
        "toktok": "tokens/vocabulary.py",
        "certifi": "net/",
        "genai_prices": "catalog/genai.py",
        "redis": "stores/redis.py",
        "rich": "cli/",
    },
    "server_reference": {
        "msgspec": "explain.py processes/ api/ gateway/ scripted/",
        "httptools": "scripted/http1.py scripted/upstream.py",
        "h2": "scripted/http2_wire.py",
        "trustme": "scripted/tls.py",
        "torch": "kernels/ attention/ models/ checkpoints/ engine/ text/grammar.py llm.py "
        "processes/worker.py",
        "triton": "kernels/",
        "numpy": "kernels/ attention/ checkpoints/ engine/",
        "gguf": "checkpoints/",
        "safetensors": "checkpoints/checkpoint_models.py",
        "tokenizers": "text/tokenizer.py checkpoints/tokenizer_files.py",
        "huggingface_hub": "downloads/hub.py",
        "jinja2": "text/chat_template.py",
        "llguidance": "text/grammar.py",
        "fastapi": "api/ gateway/",
        "starlette": "api/ gateway/",
        "hypercorn": "gateway/",
        "pytest": "pytest_plugin.py",
    },
}

# What the front process imports or what only counts: no torch there, nor in anything they import.
WITHOUT_TORCH = """
    config.py core.py credentials.py printing.py explain.py kv/ scripted/ api/ gateway/
    engine/scheduler.py engine/step.py engine/trace.py engine/fair_queue.py engine/admission.py
    engine/books.py engine/pacing.py text/detokenizer.py processes/process.py downloads/
    text/tokenizer.py text/chat_template.py checkpoints/registry.py checkpoints/checkpoint.py
    checkpoints/tokenizer_files.py
    """.split()

# What `import smartclient` loads none of.
NOT_AT_IMPORT = """
    asyncio httpx httpx2 h2 pydantic tiktoken toktok tenacity rich openai anthropic
    opentelemetry torch ssl redis sqlite3
    """.split()

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40

PACKAGES = ("smartclient", "server_reference")
SOURCES = [source for package in PACKAGES for source in sources(package)]
MODULES = {source.module for source in SOURCES}
EVERY_SOURCE = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.label)


def line_of(package: str, part: str) -> int | None:
    lines = [line.split() for line in LINES[package].strip().splitlines()]
    return next((number for number, line in enumerate(lines) if part in line), None)


def part_of(module: str) -> str:
    """`smartclient.net.pool` is of the part `net`; the package itself is `__init__`."""
    return module.split(".")[1] if "." in module else "__init__"


def own_imports(source: Source, *, lazy: bool = True) -> list[Import]:
    """Imports of the same package, each as the module that really exists."""
    found = []
    for one in source.imports if lazy else source.imports_at_once:
        if one.package == source.package:
            parent = one.name.rpartition(".")[0]
            found.append(one if one.name in MODULES else Import(parent, one.line))
    return found


def stands_in(path: str, places: list[str]) -> bool:
    return any(path.startswith(place) if place.endswith("/") else path == place for place in places)


@EVERY_SOURCE
def test_has_a_place_in_the_layers(source: Source) -> None:
    assert line_of(source.package, source.part) is not None, (
        f"{source.label}: add {source.part!r} to LINES, where it belongs"
    )


@EVERY_SOURCE
def test_imports_only_from_its_own_line_or_above(source: Source) -> None:
    own = line_of(source.package, source.part) or 0

    wrong = [
        f"{source.label}:{one.line} imports {one.name}, from a line below"
        for one in own_imports(source)
        if (line_of(source.package, part_of(one.name)) or 0) > own
    ]

    assert wrong == []


@EVERY_SOURCE
def test_keeps_away_from_strangers(source: Source) -> None:
    strangers = STRANGERS[source.package].get(source.part, "").split()

    wrong = [
        f"{source.label}:{one.line} imports {one.name}: {source.part} knows no {part_of(one.name)}"
        for one in own_imports(source)
        if part_of(one.name) in strangers
    ]

    assert wrong == []


@EVERY_SOURCE
def test_modules_that_stand_apart_do_not_meet(source: Source) -> None:
    apart = source.part in APART[source.package] and not source.path.endswith("__init__.py")

    wrong = [
        f"{source.label}:{one.line} imports {one.name}"
        for one in own_imports(source)
        if apart and part_of(one.name) == source.part
    ]

    assert wrong == []


@EVERY_SOURCE
def test_third_party_packages_stay_in_their_places(source: Source) -> None:
    places = PLACES[source.package]
    third_party = [
        one
        for one in source.imports
        if one.package not in sys.stdlib_module_names and one.package not in PACKAGES
    ]

    wrong = [
        f"{source.label}:{one.line} imports {one.package}, which is for {places.get(one.package)}"
        for one in third_party
        if one.package not in places
        or (places[one.package] and not stands_in(source.path, places[one.package].split()))
    ]

    assert wrong == []


@EVERY_SOURCE
def test_the_packages_never_import_each_other(source: Source) -> None:
    others = [one for one in source.imports if one.package in PACKAGES]

    assert [one for one in others if one.package != source.package] == []


def torch_free() -> list[Source]:
    return [
        source for source in sources("server_reference") if stands_in(source.path, WITHOUT_TORCH)
    ]


@pytest.mark.parametrize("source", torch_free(), ids=lambda source: source.label)
def test_torch_is_out_of_reach(source: Source) -> None:
    """Not imported, and by nothing that the import of this module loads."""
    by_module = {other.module: other for other in sources("server_reference")}
    reached: set[str] = set()
    waiting = [source.module]
    while waiting:
        module = waiting.pop()
        if module in by_module and module not in reached:
            reached.add(module)
            waiting.append(module.rpartition(".")[0])  # the package's `__init__` runs too
            waiting += [one.name for one in own_imports(by_module[module], lazy=False)]

    torch = {"torch", "triton"}
    with_torch = [
        module
        for module in sorted(reached)
        if any(one.package in torch for one in by_module[module].imports_at_once)
    ]

    assert with_torch == []
    assert [one for one in source.imports if one.package in torch] == []


@EVERY_SOURCE
def test_all_names_what_the_module_exposes(source: Source) -> None:
    """A name that is imported may be passed on, but only on purpose: by `__all__`."""
    exported = set(source.exported() or [])

    assert source.exported() is not None, f"{source.label} has no __all__"
    missing = source.exposed() - exported
    assert missing == set(), f"{source.label}: public, so name it in __all__ or with a _"
    extra = exported - source.exposed() - source.imported()
    assert extra == set() or source.has_lazy_names(), f"{source.label}: does not exist"


@EVERY_SOURCE
def test_a_docstring_says_the_job(source: Source) -> None:
    assert ast.get_docstring(source.tree), f"{source.label}: say its job in the first line"


@EVERY_SOURCE
def test_file_is_of_a_readable_length(source: Source) -> None:
    assert len(source.text.splitlines()) <= MAX_FILE_LINES, f"split {source.label} by job"


@EVERY_SOURCE
def test_functions_are_of_a_readable_length(source: Source) -> None:
    long = [(name, length) for name, length in source.functions() if length > MAX_FUNCTION_LINES]

    assert long == []


def test_importing_smartclient_stays_light() -> None:
    late = [*NOT_AT_IMPORT, "smartclient.tokens"]
    show = f"import smartclient, sys; print(*sorted(set({late}) & set(sys.modules)))"

    done = subprocess.run(
        [sys.executable, "-c", show], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == []
