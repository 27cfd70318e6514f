from __future__ import annotations

import subprocess
import sys

import pytest

from server_reference.__main__ import _keys, main


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        pytest.param(["k"], {"k": "tenant-1"}, id="key"),
        pytest.param(["k=ann", "l"], {"k": "ann", "l": "tenant-2"}, id="key-and-tenant"),
        pytest.param(
            ["k=tenant-2", "l", "m"],
            {"k": "tenant-2", "l": "tenant-3", "m": "tenant-4"},
            id="number-taken",
        ),
        pytest.param(["bm8=="], {"bm8==": "tenant-1"}, id="base64"),
        pytest.param(["bm8===ann"], {"bm8==": "ann"}, id="base64-and-tenant"),
    ],
)
def test_a_key_names_a_tenant_or_is_numbered(given, keys):
    assert _keys(given) == keys


def test_faults_are_listed(capsys):
    assert main(["faults", "--kind", "h2"]) == 0

    assert "goaway(last=0, code=0)  [server: h2]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["forks"], "smartclient-server: 'forks' is no fault; did you mean 'fork'?"),
        (["--kind", "ssl"], "smartclient-server: 'SSL' is no kind of fault;"),
    ],
)
def test_an_unknown_fault_is_one_sentence(arguments, said, capsys):
    assert main(["faults", *arguments]) == 2

    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("missing", ["fastapi", "hypercorn", "torch"])
def test_serving_without_the_extra_is_one_sentence_that_names_it(missing):
    serve = (
        f"import sys; sys.modules[{missing!r}] = None;"
        "from server_reference.__main__ import main; sys.exit(main(['serve']))"
    )

    done = subprocess.run([sys.executable, "-c", serve], capture_output=True, text=True)

    said = f"a server with a model needs {missing}; install smartclient[server]"
    assert (done.returncode, done.stderr) == (2, f"smartclient-server: {said}\n")
