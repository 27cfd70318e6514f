"""Every Python block of the documentation runs, every link leads somewhere, nothing is missing."""

from __future__ import annotations

import dataclasses
import re
from typing import get_args

import pytest

import server_reference
import smartclient
from server_reference.api import anthropic_messages, openai_chat, openai_responses
from server_reference.config import EngineConfig
from server_reference.gateway.config import ServerConfig
from server_reference.scripted.config import ScriptedConfig
from smartclient._errors import ExchangeKind
from tests.layers import ROOT, sources
from tools import api_reference, catalog_reference, fault_reference, language_reference

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
GENERATED = {
    page.PAGE: page.render
    for page in (api_reference, catalog_reference, fault_reference, language_reference)
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
TWO_SENTENCES = re.compile(r"[a-z`)][.?!] [A-Z]")


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def python_blocks(page):
    """The code of each Python block, moved down to the line where it stands in the page."""
    text = page.read_text()
    return [
        "\n" * text.count("\n", 0, found.start(2)) + found[2]
        for found in FENCE.finditer(text)
        if found[1] == "python"
    ]


def prose(page):
    return FENCE.sub("", page.read_text())


every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)
with_code = pytest.mark.parametrize(
    "page", [page for page in PAGES if python_blocks(page)], ids=name_of
)


@pytest.fixture(scope="module")
def server():
    """What the pages call their provider: the real server with its smallest model."""
    with server_reference.start("tiny", api_keys=["test"]) as running:
        yield running


@pytest.fixture
def provider(server, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.base_url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "test")


@pytest.mark.sdk
@with_code
def test_the_examples_of_a_page_run(page, provider):
    """From top to bottom in one namespace, as a reader would type them."""
    namespace = {"__name__": "__main__"}

    for code in python_blocks(page):
        exec(compile(code, name_of(page), "exec"), namespace)


def test_there_are_examples():
    assert len([page for page in PAGES if python_blocks(page)]) >= 6


@every_page
def test_links_inside_the_repository_lead_somewhere(page):
    targets = [target for target in LINK.findall(prose(page)) if "://" not in target]

    dead = [t for t in targets if not (page.parent / t.partition("#")[0]).exists()]

    assert dead == []


@every_page
def test_a_line_holds_one_sentence(page):
    lines = [] if page in GENERATED else prose(page).splitlines()

    crowded = [line for line in lines if not line.startswith("|") and TWO_SENTENCES.search(line)]

    assert crowded == []


@every_page
def test_no_line_waits_for_its_text(page):
    assert re.findall(r"^[A-Z]+(?:_[A-Z]+)*$", prose(page), re.MULTILINE) == []


@every_page
def test_a_page_begins_with_its_title(page):
    assert page.read_text().startswith("# ")


def test_every_page_can_be_reached_from_the_index():
    docs = ROOT / "docs"
    reached, waiting = set(), [docs / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            links = [t.partition("#")[0] for t in LINK.findall(prose(page)) if "://" not in t]
            targets = [(page.parent / target).resolve() for target in links if target]
            waiting += [target for target in targets if target.suffix == ".md"]

    assert [name_of(page) for page in docs.rglob("*.md") if page.resolve() not in reached] == []


@pytest.mark.parametrize("page", GENERATED, ids=name_of)
def test_a_generated_page_is_what_the_code_says(page):
    assert page.read_text() == GENERATED[page](), "run scripts/docs"


def test_every_setting_is_on_its_page():
    page = (ROOT / "docs/reference/settings.md").read_text()

    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)

    assert [n for n in smartclient.Settings.__struct_fields__ if n not in listed] == []


def test_the_defaults_on_the_settings_page_are_the_real_ones():
    page = (ROOT / "docs/reference/settings.md").read_text()
    settings = smartclient.Settings()
    simple = (bool, int, float, type(None))

    shown = dict(re.findall(r"^\| `(\w+)` \| `?([^`|]+?)`? \| [^|]+ \|$", page, re.MULTILINE))
    real = {name: getattr(settings, name) for name in settings.__struct_fields__}
    real |= {name: getattr(settings.timeout, name) for name in settings.timeout.__struct_fields__}

    assert {n: shown[n] for n, v in real.items() if isinstance(v, simple)} == {
        n: str(v) for n, v in real.items() if isinstance(v, simple)
    }


@pytest.mark.parametrize("config", [EngineConfig, ServerConfig, ScriptedConfig])
def test_every_option_of_the_server_is_on_the_settings_page(config):
    page = (ROOT / "docs/reference/settings.md").read_text()
    options = {one.name for one in dataclasses.fields(config)} - {"model", "engine"}

    assert [name for name in sorted(options) if f"`{name}`" not in page] == []


@pytest.mark.parametrize("adapter", [anthropic_messages, openai_chat, openai_responses])
def test_every_field_that_the_server_ignores_is_on_the_page_of_formats(adapter):
    page = (ROOT / "docs/reference/wire-formats.md").read_text()

    assert [name for name in adapter.IGNORED if f"`{name}`" not in page] == []


def test_every_field_beyond_openais_is_on_the_page_of_formats():
    page = (ROOT / "docs/reference/wire-formats.md").read_text()

    assert [name for name in openai_chat.EXTRAS if f"`{name}`" not in page] == []


@pytest.mark.parametrize("package", ["smartclient", "server_reference"])
def test_every_file_is_on_the_map(package):
    page = (ROOT / "docs/explanation/architecture.md").read_text()
    names = {source.path.rpartition("/")[2] for source in sources(package)}

    missing = [name for name in sorted(names) if not re.search(rf"(?<![\w/]){name}", page)]

    assert missing == []


def test_every_error_is_on_its_page():
    page = (ROOT / "docs/reference/errors.md").read_text()

    errors = [name for name in smartclient.__all__ if name.endswith("Error")]

    assert [name for name in errors if f"`{name}`" not in page] == []


def test_every_kind_of_failed_exchange_is_on_the_page_of_errors():
    page = (ROOT / "docs/reference/errors.md").read_text()

    assert [kind for kind in get_args(ExchangeKind) if f"`{kind}`" not in page] == []


@pytest.mark.parametrize("script", ["demo", "test"])
def test_the_readme_names_the_two_commands(script):
    assert f"scripts/{script}" in (ROOT / "README.md").read_text()
