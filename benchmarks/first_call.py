"""What a process pays until its first call is answered: import, first client, first call."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from statistics import median

from .figures import Figure, Outcome, Progress, figure
from .processes import cores, environment, on_core, running_upstream
from .replies import messages

__all__ = ["QUICK", "Sizes", "run"]

_MESSAGES = f"model='m', messages={messages(1)}"

# What each fresh process runs; `URL` is put in.
_CODE = {
    "nothing": "pass",
    "import smartclient": "import smartclient",
    "smartclient, chat": f"""
import smartclient
client = smartclient.Client(provider="openai", base_url="URL/v1", api_key="none")
assert client.chat.completions.create({_MESSAGES}).choices[0].message.content
""",
    "smartclient, messages": f"""
import smartclient
client = smartclient.Client(base_url="URL", api_key="none")
assert client.messages.create(max_tokens=9, {_MESSAGES}).content[0].text
""",
    "openai": f"""
import openai
client = openai.OpenAI(base_url="URL/v1", api_key="none")
assert client.chat.completions.create({_MESSAGES}).choices[0].message.content
""",
    "anthropic": f"""
import anthropic
client = anthropic.Anthropic(base_url="URL", api_key="none")
assert client.messages.create(max_tokens=9, {_MESSAGES}).content[0].text
""",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many fresh processes each path gets."""

    rounds: int = 9


QUICK = Sizes(rounds=1)


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """Run each path in fresh processes, in turn; CPU time, user and system, of each process."""
    seconds: dict[str, list[float]] = {name: [] for name in _CODE}
    server_core, client_core = cores()
    with running_upstream(server_core) as (url, _), on_core(client_core):
        for code in _CODE.values():
            _cpu_of(code, url)  # writes bytecode
        for number in range(sizes.rounds):
            progress(f"round {number + 1} of {sizes.rounds}")
            for name, code in _CODE.items():
                seconds[name].append(_cpu_of(code, url))
    return Outcome(name="import", sizes=asdict(sizes), figures=_figures(seconds))


def _figures(seconds: dict[str, list[float]]) -> list[Figure]:
    """Each path less the bare interpreter's start and end."""
    bare = median(seconds.pop("nothing"))
    paths = {name: [one - bare for one in samples] for name, samples in seconds.items()}
    runs = len(paths["openai"])
    ours = {"chat": "openai", "messages": "anthropic"}
    ratios = [
        Figure(
            name=f"smartclient / {sdk}, {path}",
            value=median(paths[f"smartclient, {path}"]) / median(paths[sdk]),
            unit="ratio",
            bar=0.2 if sdk == "openai" else None,
            runs=runs,
        )
        for path, sdk in ours.items()
    ]
    bars = {f"smartclient, {path}": 75.0 for path in ours}
    times = [
        figure(name, samples, "ms", scale=1e3, bar=bars.get(name))
        for name, samples in paths.items()
    ]
    return [
        *ratios,
        *times,
        Figure(name="bare interpreter", value=bare * 1e3, unit="ms", runs=runs),
    ]


def _cpu_of(code: str, url: str) -> float:
    """CPU seconds of a fresh process that runs `code`, from its start to its end."""
    command = [sys.executable, "-sP", "-c", code.replace("URL", url)]
    process = os.posix_spawn(sys.executable, command, environment())
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        raise RuntimeError(f"this ended with status {os.waitstatus_to_exitcode(status)}:\n{code}")
    return usage.ru_utime + usage.ru_stime
