"""Write `docs/reference/faults.md` from the presets, and from what only a client can cause."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from server_reference.scripted.faults.client_side import CLIENT_SIDE
from server_reference.scripted.faults.listing import signature
from server_reference.scripted.faults.presets import KINDS, Preset
from server_reference.scripted.faults.registry import PRESETS

__all__ = ["PAGE", "main", "render"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "faults.md"

_HEAD = (
    "# Faults\n\n"
    "Written from the code by `scripts/docs`; change it there.\n\n"
    f"{len(PRESETS)} presets that the scripted server plays, and {len(CLIENT_SIDE)} faults that no "
    "server can cause.\n"
    "`smartclient-server faults` prints the same, and "
    "[how to break a reply](../how-to/break-replies.md) shows the use.\n"
    "[Faults and clients](faults-and-clients.md) tells what the SDKs and our client do under each "
    "preset.\n"
    "Each comes from public reports, which its entry names: the reports of a repository, as "
    "`#issue` or `PR#pull-request`, or what a released version did when it was run.\n"
    "Numbers without a repository belong to the one before them; "
    "[whose repositories they are](#repositories) stands at the end.\n"
)

_NEEDS = {
    "stream": "a streamed reply",
    "http/1.1": "HTTP/1.1",
    "h2": "HTTP/2",
    "tls": "TLS",
    "greeting": "`greeting(...)`: it is played before a request",
}


_OWNERS = """anthropics: anthropic-sdk-python, anthropic-sdk-typescript, claude-code
openai: openai-python, codex
pydantic: httpx2 (with httpcore2), pydantic-ai, logfire
encode: httpx, httpcore
florimondmanca: httpx-sse
langchain-ai: langchain, langchainjs
BerriAI: litellm
traceloop: openllmetry
open-telemetry: opentelemetry-python, opentelemetry-python-contrib
Arize-ai: phoenix, openinference
vllm-project: vllm, guidellm
ggml-org: llama.cpp
huggingface: smolagents, huggingface_hub
UKGovernmentBEIS: inspect_ai
meridianlabs-ai: inspect_scout
NVIDIA: garak, TensorRT-LLM
microsoft: agent-framework, Agents-for-python
googleapis: python-genai
agno-agi: agno
Aider-AI: aider
anomalyco: opencode
CopilotKit: aimock
JulienRabault: LLMock
mpetazzoni: sseclient
Soju06: codex-lb
theopenco: llmgateway
mckinsey: agents-at-scale-ark
NousResearch: hermes-agent
apify: crawlee-python
earendil-works: pi
mindsdb: anton
jin-bo: agentao
mpfaffenberger: code_puppy
bolna-ai: bolna
pipecat-ai: pipecat
AstroVela: vane
bespokelabsai: curator
maximhq: bifrost
0xPlaygrounds: rig
whoz-oss: coday
vellum-ai: vellum-assistant
headroomlabs-ai: headroom
avante-corp: avante.nvim"""


def render() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_index(), *_presets(), *_client_side(), *_repositories()]) + "\n"


def _index() -> Iterator[str]:
    yield "| kind | about | presets | client only |"
    yield "| --- | --- | --- | --- |"
    for kind, meaning in KINDS.items():
        played = sum(one.kind == kind for one in PRESETS.values())
        others = sum(row.kind == kind for row in CLIENT_SIDE)
        yield f"| {kind} | {meaning} | {played} | {others} |"
    yield ""


def _presets() -> Iterator[str]:
    for kind, meaning in KINDS.items():
        presets = [one for one in PRESETS.values() if one.kind == kind]
        if presets:
            yield f"## {kind}: {meaning}\n"
        for one in presets:
            yield from _preset(one)


def _preset(one: Preset[...]) -> Iterator[str]:
    yield f"### {one.name}\n"
    yield f"```text\n{signature(one)}\n```\n"
    yield f"{one.condition}\n"
    for name, (_, meaning) in one.parameters.items():
        yield f"- `{name}`: {_escaped(meaning)}"
    if one.parameters:
        yield ""
    yield f"**Right:** {_escaped(one.right)}\n"
    needs = [_NEEDS[need] for need in one.needs] + [f"`{api}`" for api in one.apis]
    if needs:
        yield f"Needs {', '.join(needs)}.\n"
    yield f"Seen: {_escaped(one.sources)}\n"


def _client_side() -> Iterator[str]:
    yield "## What no server can cause\n"
    yield "| fault | kind | what happens | right | why no server | seen |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for kind in KINDS:
        for row in CLIENT_SIDE:
            if row.kind == kind:
                told = (row.condition, row.right, row.why, row.sources)
                yield f"| {row.name} | {kind} | {' | '.join(map(_escaped, told))} |"


def _repositories() -> Iterator[str]:
    yield "\n## Repositories\n"
    for line in _OWNERS.split("\n"):
        owner, _, names = line.partition(": ")
        yield f"- {owner}: {names}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
