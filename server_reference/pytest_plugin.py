"""pytest fixtures: `llm_server`, scripted, and `reference_server`, the one with a real model.

Only the standard library and pytest are imported here; a server's parts are when a fixture is
first used, so that having the plugin installed costs other test suites nothing.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .gateway.server import Server
    from .scripted.server import ScriptedServer

__all__ = [
    "llm_server",
    "llm_server_env",
    "llm_server_session",
    "pytest_addoption",
    "pytest_configure",
    "pytest_runtest_makereport",
    "reference_server",
    "reference_server_env",
]

_MARK = "llm_server"
_SERVERS = ("llm_server", "llm_server_session", "reference_server")
_JUDGING = ("check", "ignore", "max_attempts")
_OTHER_CREDENTIALS = (
    *("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"),
    *("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_CUSTOM_HEADERS"),
)
_OWN_HOSTS = "127.0.0.1,localhost"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("llm_server", "servers that play an LLM API")
    text = "set OPENAI_BASE_URL, ANTHROPIC_BASE_URL and keys for tests that use a server"
    group.addoption("--llm-server-env", action="store_true", help=text)
    parser.addini("llm_server_env", text, type="bool", default=False)
    parser.addini("reference_server_model", "tiny, smollm2 or a GGUF file", default="tiny")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARK}(rules=(), check=False, ignore=(), max_attempts=5, **config): what llm_server "
        "plays, whether its verdict is checked when the test is over, and its options",
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Show beside a failed test what its scripted server thinks of the client."""
    outcome = yield
    report = outcome.get_result()
    server = getattr(item, "funcargs", {}).get("llm_server")
    if report.when == "call" and report.failed and server is not None:
        _, options = _marked(item.get_closest_marker(_MARK))
        judging = {name: options[name] for name in ("ignore", "max_attempts") if name in options}
        try:
            report.sections.append(("llm_server", str(server.verdict(**judging))))
        except ValueError as error:  # of the marker
            report.sections.append(("llm_server", str(error)))


@pytest.fixture
def llm_server(request: pytest.FixtureRequest) -> Iterator[ScriptedServer]:
    """A scripted server of this test's own, on a free port.

    `@pytest.mark.llm_server(rules, check=True, ...)` sets its rules and options; `check` fails
    the test's teardown when the verdict finds something wrong with the client.
    """
    rules, options = _marked(request.node.get_closest_marker(_MARK))
    _check_options(options)
    judging = {name: options.pop(name) for name in _JUDGING if name in options}
    is_checked = judging.pop("check", False)
    with _scripted(rules, options) as server:
        yield server
        if is_checked:
            server.verdict(**judging).check()


@pytest.fixture(scope="session")
def llm_server_session() -> Iterator[ScriptedServer]:
    """A scripted server for the whole run, or for each worker of pytest-xdist.

    Tests that share it set its rules (`rules.replace`) and begin anew (`reset`).
    """
    with _scripted((), {}) as server:
        yield server


@pytest.fixture(scope="session")
def reference_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """The real server with its smallest model, for the whole run or each xdist worker."""
    from . import start

    with start(request.config.getini("reference_server_model")) as server:
        yield server


@pytest.fixture(autouse=True)
def _environment_if_asked(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--llm-server-env`: points the SDKs at the server that the test uses."""
    used = [name for name in _SERVERS if name in request.fixturenames]
    if not used or not _sets_environment(request.config):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        _point_at(request.getfixturevalue(used[0]), patch)
        yield


@pytest.fixture
def llm_server_env(llm_server: ScriptedServer) -> Iterator[Mapping[str, str]]:
    """Points the SDKs at `llm_server` by environment variables, for this test."""
    with pytest.MonkeyPatch.context() as patch:
        yield _point_at(llm_server, patch)


@pytest.fixture
def reference_server_env(reference_server: Server) -> Iterator[Mapping[str, str]]:
    """Points the SDKs at `reference_server` by environment variables, for this test."""
    with pytest.MonkeyPatch.context() as patch:
        yield _point_at(reference_server, patch)


def _scripted(rules: Any, options: Mapping[str, Any]) -> ScriptedServer:
    from .scripted.server import scripted

    return scripted(rules, **options)


def _marked(mark: pytest.Mark | None) -> tuple[Any, dict[str, Any]]:
    """Rules and options of the marker."""
    if mark is None:
        return (), {}
    options = dict(mark.kwargs)
    given = [*mark.args, *([options.pop("rules")] if "rules" in options else [])]
    if len(given) > 1:
        raise pytest.UsageError(
            f"the marker {_MARK} takes rules once, not {len(given)} times; put them in a list"
        )
    return (given[0] if given else ()), options


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse an unknown option here, where those of the marker alone are known too."""
    from dataclasses import fields

    from .scripted.config import ScriptedConfig
    from .scripted.nearest import unknown

    known = [*(one.name for one in fields(ScriptedConfig)), "rules", *_JUDGING]
    for name in options:
        if name not in known:
            raise TypeError(unknown(f"option of the marker {_MARK}", name, known))


def _sets_environment(config: pytest.Config) -> bool:
    return bool(config.getoption("--llm-server-env") or config.getini("llm_server_env"))


def _point_at(server: ScriptedServer | Server, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Set what SDKs read; a key of the machine's own must not reach a test's server."""
    values = {
        "OPENAI_BASE_URL": f"{server.base_url}/v1",
        "OPENAI_API_KEY": server.api_key,
        "ANTHROPIC_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": server.api_key,
    }
    # Clients read either name, and the small letters before the capitals.
    for name in ("NO_PROXY", "no_proxy"):
        values[name] = ",".join(filter(None, (os.environ.get(name), _OWN_HOSTS)))
    for name, value in values.items():
        patch.setenv(name, value)
    for name in _OTHER_CREDENTIALS:
        patch.delenv(name, raising=False)
    return values
