from __future__ import annotations

from server_reference.config import EngineConfig
from server_reference.processes.environment import environment


def test_threads_wait_without_spinning():
    """Two that spin on two busy cores made a step 5 to 40 times slower."""
    given = environment(EngineConfig(threads=2))

    assert (given["OMP_NUM_THREADS"], given["MKL_NUM_THREADS"]) == ("2", "2")
    assert (given["OMP_WAIT_POLICY"], given["GOMP_SPINCOUNT"]) == ("passive", "0")


def test_the_child_finds_this_code_before_any_other(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")

    first, *rest = environment(EngineConfig())["PYTHONPATH"].split(":")

    assert rest == ["/elsewhere"]
    assert first != "/elsewhere"
