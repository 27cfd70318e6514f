"""First calls that come at once."""

from __future__ import annotations

import subprocess
import sys

from tests.layers import ROOT

FIRST_CALLS = """
import threading
from concurrent.futures import ThreadPoolExecutor
from smartclient._flow import exchange
from tests.smartclient.policies.test_cache_hints import hints, prompt

policy, gate = hints(), threading.Barrier(8)
calls = [prompt(str(number)) for number in range(8)]
flows = [policy.flow(call, exchange) for call in calls]

def begin(flow):
    gate.wait()
    next(flow)

with ThreadPoolExecutor(8) as pool:
    list(pool.map(begin, flows))
print(len({id(call.trace.hints.hinted.book) for call in calls}))
"""


def test_threads_whose_first_calls_come_at_once_share_what_is_known():
    """In a process of its own: what a first call loads is what they all wait for there."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST_CALLS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.stdout.strip(), done.stderr) == ("1", "")
