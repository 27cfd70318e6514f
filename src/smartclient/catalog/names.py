"""One model under many names: dates, clouds, gateways and fine-tunes taken off, step by step.

A step takes off what it knows and nothing else, so that a name never becomes that of another
model: `claude-opus-5-6` stays unknown as long as only `claude-opus-5` is known.

Source: Amazon Bedrock, "Inference profiles" (regions); Google Cloud, "Claude on Vertex AI"
(`@` dates); OpenAI, "Fine-tuning" (`ft:` names).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Reading", "readings"]


class Reading(NamedTuple):
    """One thing that a name may mean.

    Attributes:
        name: A model's name, if it is one.
        region: What the name says about where it runs, such as `bedrock:us`.
        is_fine_tuned: Whether it is a model tuned from that one.
    """

    name: str
    region: str | None = None
    is_fine_tuned: bool = False


_GATEWAYS = frozenset(
    "openai anthropic azure azure_ai openrouter bedrock converse invoke vertex_ai responses".split()
)
_SCHEMES = frozenset(
    "openai anthropic azure bedrock openrouter vertex google-vertex openai-chat"
    " openai-responses".split()
)
_AZURE_REGIONS = frozenset({"us", "eu", "apac"})
_AWS_REGION = re.compile(r"[a-z]{2}(-gov)?-[a-z]+-\d")
_BEDROCK = re.compile(
    r"(?:(?P<region>us-gov|us|eu|apac|au|ca|jp|global)\.)?(?:anthropic|openai)\.(?P<name>[^.].*)"
)
_BEDROCK_VERSION = re.compile(r"-v\d+(:\d+)?(:\d+k)?$")
_DATE = re.compile(r"-20\d\d(-?)(0[1-9]|1[0-2])\1(0[1-9]|[12]\d|3[01])$")
_FAMILY_LAST = re.compile(r"claude-(\d+(?:-\d+)?)-(opus|sonnet|haiku|fable|mythos)(?=-|$)")
_DASHED_GPT = re.compile(r"gpt-(\d)-(\d)(?=-|$)")


def readings(asked: str) -> Iterator[Reading]:
    """What `asked` may mean: first as it stands, then with less and less around it."""
    name = asked.strip().lower()
    yield Reading(name)
    name, region = _inside(name)
    is_fine_tuned = name.startswith("ft:")
    if is_fine_tuned:
        name = name.split(":")[1]
    for spelling in _spellings(name):
        yield Reading(spelling, region, is_fine_tuned)


def _inside(name: str) -> tuple[str, str | None]:
    """The name inside an ARN, a path or a prefix, and the region that these told."""
    scheme, _, rest = name.partition(":")
    if scheme in _SCHEMES and rest:
        name = rest
    region = None
    if name.startswith("arn:aws") or "publishers/" in name:
        region = "bedrock:us-gov" if ":us-gov-" in name else None
        name = name.rpartition("/")[2]
    while "/" in name:
        first, _, rest = name.partition("/")
        if first not in _GATEWAYS:
            break
        name = rest
        second, _, rest = name.partition("/")
        if rest and first.startswith("azure") and second in _AZURE_REGIONS:
            name, region = rest, f"azure:{second}"
        elif rest and first == "bedrock" and (found := _AWS_REGION.fullmatch(second)):
            name, region = rest, "bedrock:us-gov" if found[1] else f"bedrock:{second}"
    if found := _BEDROCK.fullmatch(name):
        name = found["name"]
        if found["region"] and found["region"] != "global":
            region = f"bedrock:{found['region']}"
    return name, region


def _spellings(name: str) -> Iterator[str]:
    yield name
    name = name.removesuffix("[1m]")  # how Claude Code asks for the long window
    name = _BEDROCK_VERSION.sub("", name)
    name = re.sub(r"@(default|latest)$", "", name).replace("@", "-")
    yield name
    if name.startswith("claude-"):
        name = name.replace(".", "-")
        yield name
        name = _FAMILY_LAST.sub(r"claude-\2-\1", name)
    else:
        name = _DASHED_GPT.sub(r"gpt-\1.\2", name)  # Azure takes no dots in older names
    yield name
    yield _DATE.sub("", name)
