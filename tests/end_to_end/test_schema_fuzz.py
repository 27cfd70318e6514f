"""Every API under schemathesis: requests that fit its description, and requests that do not.

The servers live in this process, so what they log and leave open is seen here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import server_reference
from server_reference.api.openapi import describe
from server_reference.api.service import ModelCard
from server_reference.scripted import Admin, ErrorAnswer, ManualClock, rule
from server_reference.scripted.providers import CacheRules, Limits
from tests.end_to_end.admin_description import admin_description
from tests.end_to_end.raw_http import num_open_files, post, send, until
from tests.end_to_end.tiny_calls import ANN, is_idle, messages
from tests.layers import ROOT

KEY = f"x-api-key: {ANN}"
RULES = [
    rule("Hello", user="[a-z]"),
    rule("Hello", model="tiny", turn=1),
    rule(ErrorAnswer(429), system="x", tool_result=True),
    rule("Again", attempt=2),
]
# A scripted server takes whatever a rule takes, and the admin API words of its own.
OWN = "not_a_server_error,content_type_conformance,is_an_error_of_the_api"
SCRIPTED = ["--checks", OWN, "--include-path-regex", "(messages|completions|responses)$"]
ADMIN = ["--checks", f"{OWN},status_code_conformance,response_schema_conformance"]

# The short form is the same requests each time: every bound is crossed, a few fit, and a few are
# drawn. The long form searches anew.
SHORT = """
request-timeout = 60
phases.examples.enabled = false
phases.stateful.enabled = false
phases.coverage.generation.mode = "negative"
phases.fuzzing.generation.max-examples = 5
seed = 1
"""
LONG = """
request-timeout = 60
phases.examples.enabled = false
phases.stateful.enabled = false
generation.max-examples = 100
"""
in_both_forms = pytest.mark.parametrize(
    "form",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)


@pytest.fixture
def fuzz(tmp_path, form):
    """Runs schemathesis as its users do, in a process and a folder of its own."""
    hooks = {"SCHEMATHESIS_HOOKS": "tests.end_to_end.schema_fuzz_hooks", "PYTHONPATH": str(ROOT)}

    (tmp_path / "schemathesis.toml").write_text(form)

    def run(document, *options, header):
        if isinstance(document, dict):
            path = tmp_path / "openapi.json"
            path.write_text(json.dumps(document))
            document = str(path)
        command = [sys.executable, "-m", "schemathesis.cli", "run", document, *options]
        command += ["--header", header, "--continue-on-failure", "--no-color"]
        command += ["--max-response-time", "60"]  # a long answer of a busy machine is no fault
        ran = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | hooks,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr

    return run


@in_both_forms
def test_the_engines_server_keeps_to_its_description(fuzz, tiny_server, caplog):
    url, before = tiny_server.base_url, num_open_files()

    fuzz(f"{url}/openapi.json", "--checks", "all", header=KEY)

    until(lambda: is_idle(tiny_server))
    until(lambda: num_open_files() <= before)
    assert caplog.records == []
    assert post(url, "/v1/messages", messages(), key=ANN).status == 200


@in_both_forms
def test_a_scripted_server_answers_whatever_comes(fuzz, caplog):
    document = describe(ModelCard("tiny", 0, 1000))
    with server_reference.scripted(
        RULES,
        rate_limits=Limits(requests_per_minute=10**6),
        prompt_cache=CacheRules(),
        api_keys=[ANN],
        clock=ManualClock(),
    ) as server:
        fuzz(document, *SCRIPTED, "--url", server.base_url, header=KEY)

        server.settle()
        server.assert_no_leaks(idle=0)
        server.verdict()  # can be told of all that came
        assert caplog.records == []
        assert post(server.base_url, "/v1/messages", messages(), key=ANN).status == 200


@in_both_forms
def test_the_admin_api_answers_whatever_comes(fuzz, caplog, capfd):
    with server_reference.scripted(clock=ManualClock()) as server, Admin(server) as admin:
        shown = {"Authorization": f"Bearer {admin.token}"}
        endpoints = send(admin.url, "GET", "/", headers=shown).json()["endpoints"]
        document = admin_description(endpoints)

        fuzz(document, *ADMIN, "--url", admin.url, header=": ".join(*shown.items()))

        rules = {"rules": [{"then": "Hi"}]}
        assert send(admin.url, "PUT", "/rules", rules, headers=shown).status == 200
        assert caplog.records == []
        assert capfd.readouterr() == ("", "")
