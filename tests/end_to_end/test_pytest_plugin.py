"""The pytest plugin in test suites of its users, each run in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
import tomllib

import pytest

import server_reference
from tests.layers import ROOT

pytestmark = pytest.mark.sdk

SUITE = """
import asyncio
import os
import threading

import anthropic
import openai
import pytest
import trio

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def ask(server, **options):
    url = f"{server.base_url}/v1"
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0, **options) as client:
        return client.chat.completions.create(**ASKED).choices[0].message.content


def test_scripted(llm_server):
    llm_server.on("Hello")
    assert ask(llm_server) == "Hello"
    llm_server.assert_attempts(1)
    llm_server.verdict().check()


def test_each_test_has_its_own(llm_server):
    assert llm_server.rules.rules == [] and llm_server.counters().requests == 0


@pytest.mark.llm_server("Hello", api_keys=["k"], check=True)
def test_marked(llm_server):
    assert ask(llm_server) == "Hello"


@pytest.mark.llm_server(rules=["first", "second"])
def test_marked_by_name(llm_server):
    assert [ask(llm_server), ask(llm_server)] == ["first", "second"]


@pytest.mark.llm_server("Hello", check=True)
def test_guilty(llm_server):
    with llm_server.call() as call:
        call.text = ask(llm_server) + "!"


@pytest.mark.llm_server("Hello", check=True, ignore=["answer_differs"])
def test_forgiven(llm_server):
    with llm_server.call() as call:
        call.text = ask(llm_server) + "!"


@pytest.mark.llm_server("Hello")
def test_not_asked(llm_server):
    with llm_server.call() as call:
        call.text = ask(llm_server) + "!"


@pytest.mark.llm_server("Hello", prot=1)
def test_unknown_option(llm_server):
    pass


@pytest.mark.llm_server("Hello", chek=True)
def test_unknown_option_of_the_marker(llm_server):
    pass


def test_no_rules(llm_server):
    with pytest.raises(openai.BadRequestError, match="no rules"):
        ask(llm_server)


def test_session_first(llm_server_session):
    llm_server_session.rules.replace([])
    llm_server_session.on("Hello")
    assert ask(llm_server_session) == "Hello"


def test_session_second(llm_server_session):
    llm_server_session.forget()
    llm_server_session.rules.replace([])
    llm_server_session.on("Bye")
    assert ask(llm_server_session) == "Bye"
    assert llm_server_session.counters().requests == 1


async def ask_async(server):
    url = f"{server.base_url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
        return (await client.chat.completions.create(**ASKED)).choices[0].message.content


@pytest.mark.llm_server("Hello", check=True)
def test_asyncio(llm_server):
    assert asyncio.run(ask_async(llm_server)) == "Hello"


@pytest.mark.llm_server("Hello", check=True)
def test_trio(llm_server):
    assert trio.run(ask_async, llm_server) == "Hello"


@pytest.mark.llm_server("Hello")
def test_environment(llm_server, llm_server_env):
    assert "ANTHROPIC_AUTH_TOKEN" not in os.environ
    with openai.OpenAI() as one, anthropic.Anthropic() as other:
        assert one.chat.completions.create(**ASKED).choices[0].message.content == "Hello"
        assert other.messages.create(max_tokens=5, **ASKED).content[0].text == "Hello"


def test_no_proxy_of_the_machine_is_asked(llm_server_env, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert os.environ["no_proxy"].startswith("mine.example,")
    with openai.OpenAI(max_retries=0) as client, pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**ASKED)


def test_no_header_of_the_machine_is_sent(llm_server, llm_server_env):
    llm_server.on("Hello")
    with anthropic.Anthropic() as client:
        client.messages.create(max_tokens=5, **ASKED)
    assert llm_server.journal.entries()[0].header("x-mine") is None


def test_environment_is_put_back():
    assert os.environ["OPENAI_BASE_URL"] == "http://mine" and "NO_PROXY" not in os.environ
    assert os.environ["no_proxy"] == "mine.example"


def test_real(reference_server, reference_server_env):
    with openai.OpenAI() as client:
        answer = client.chat.completions.create(max_tokens=2, **(ASKED | {"model": "tiny"}))
    assert answer.usage.completion_tokens <= 2


def test_no_thread_is_left():
    names = [one.name for one in threading.enumerate() if one.name == "server_reference"]
    assert len(names) <= 2  # those of the session
"""

ENVIRONMENT_SUITE = """
import os


def test_is_set(llm_server):
    assert os.environ["OPENAI_BASE_URL"] == f"{llm_server.base_url}/v1"


def test_is_left_alone():
    assert os.environ["OPENAI_BASE_URL"] == "http://mine"
"""

WORKERS_SUITE = """
import pytest


@pytest.mark.parametrize("number", range(6))
def test_alone(llm_server, llm_server_session, number):
    for server in (llm_server, llm_server_session):
        assert server.port != 0 and server.counters().requests == 0
"""


def run_suite(folder, source, *arguments):
    """pytest's output for a suite of one file."""
    (folder / "test_it.py").write_text(textwrap.dedent(source))
    environment = os.environ | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "OPENAI_BASE_URL": "http://mine",
        "ANTHROPIC_AUTH_TOKEN": "mine",
        "ANTHROPIC_CUSTOM_HEADERS": "x-mine: 1",
        "no_proxy": "mine.example",
    }
    environment.pop("NO_PROXY", None)
    plugins = ["-p", "server_reference.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-rA", "--strict-markers", "-W", "error"]
    done = subprocess.run(
        [*command, *plugins, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
    )
    return done.stdout + done.stderr


def outcomes(output):
    """What became of each test, by its name."""
    return {
        name: outcome
        for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\S+)", output, re.MULTILINE)
    }


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return run_suite(tmp_path_factory.mktemp("suite"), SUITE)


@pytest.mark.parametrize(
    "name", [name for name in re.findall(r"def (test_\w+)", SUITE) if "option" not in name]
)
def test_in_a_suite(suite, name):
    expected = "ERROR" if name == "test_guilty" else "PASSED"

    assert outcomes(suite).get(name) == expected, suite


def test_a_guilty_client_fails_the_teardown_with_the_reason(suite):
    assert "ERROR at teardown of test_guilty" in suite
    assert "VerdictError: the client is at fault" in suite
    assert "they differ from character 5" in suite


FAILING_SUITE = """
import urllib.request

import pytest


@pytest.mark.llm_server("Hello")
def test_wrong(llm_server):
    for _ in range(2):
        urllib.request.urlopen(f"{llm_server.base_url}/v1/models?api_key=0123456789").close()
    assert False


@pytest.mark.llm_server("Hello", ignore=["nonesuch"])
def test_wrong_in_its_marker_too(llm_server):
    assert False
"""


def test_a_failed_test_shows_the_verdict(tmp_path):
    output = run_suite(tmp_path, FAILING_SUITE)

    assert "llm_server" in output
    assert "misplaced_key: a key came in the URL" in output
    assert "'nonesuch' is no rule of a verdict" in output
    assert "0123456789" not in output.replace("api_key=0123456789", "")


def test_an_unknown_option_is_an_error_that_names_the_nearest(suite):
    assert outcomes(suite)["test_unknown_option"] == "ERROR"
    assert "did you mean 'port'?" in suite
    assert outcomes(suite)["test_unknown_option_of_the_marker"] == "ERROR"
    assert "did you mean 'check'?" in suite


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--llm-server-env"], id="option"),
        pytest.param(["-o", "llm_server_env=true"], id="ini"),
    ],
)
def test_the_environment_is_set_on_request(tmp_path, arguments):
    output = run_suite(tmp_path, ENVIRONMENT_SUITE, *arguments)

    assert outcomes(output) == {"test_is_set": "PASSED", "test_is_left_alone": "PASSED"}, output


def test_workers_of_xdist_do_not_meet(tmp_path):
    output = run_suite(tmp_path, WORKERS_SUITE, "-p", "xdist", "-n", "2")

    assert "6 passed" in output, output


def test_the_suite_on_the_page_passes(tmp_path):
    page = (ROOT / "docs/how-to/test-your-code.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)

    output = run_suite(tmp_path, next(block for block in blocks if "def test_" in block))

    assert set(outcomes(output).values()) == {"PASSED"}, output


def test_importing_it_loads_the_standard_library_only():
    show = (
        "import pytest, sys; before = set(sys.modules); import server_reference.pytest_plugin;"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )

    done = subprocess.run(
        [sys.executable, "-c", show], cwd=ROOT, capture_output=True, text=True, check=True
    )

    loaded = set(done.stdout.split())
    assert loaded - sys.stdlib_module_names == {"server_reference"}
    assert "asyncio" not in loaded


def test_the_plugin_is_registered_with_pytest():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["pytest11"] == {
        "server_reference": "server_reference.pytest_plugin"
    }


def test_a_scripted_server_starts_within_100_ms():
    server_reference.scripted("Hello").stop()  # its modules are loaded
    taken = []
    for _ in range(5):
        started = time.perf_counter()
        with server_reference.scripted("Hello"):
            taken.append(time.perf_counter() - started)

    assert min(taken) < 0.1
