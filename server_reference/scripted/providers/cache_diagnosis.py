"""Why a prompt was not read from the cache, in the words of either provider.

Fingerprints hold hashes and token counts, never a prompt.
Source: Anthropic, "Cache diagnostics"; openai-python 3, `PromptCacheDiagnostics`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .prompt_walk import Prompt

__all__ = ["Fingerprint", "Fingerprints", "anthropic_diagnosis", "openai_diagnosis"]

_MAX_BLOCKS = 200_000


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is kept of a request to compare a later one with.

    Attributes:
        owner: Whose it is; nobody else's request is compared with it.
        ends: Tokens up to the end of each block.
        reusable: Tokens of the prefix that the cache held when its reply began.
    """

    owner: str
    parts: Mapping[str, bytes]
    blocks: tuple[bytes, ...]
    ends: tuple[int, ...]
    reusable: int

    @classmethod
    def of(cls, prompt: Prompt, owner: str, reusable: int) -> Fingerprint:
        return cls(
            owner,
            prompt.parts,
            tuple(block.digest for block in prompt.blocks),
            tuple(block.end for block in prompt.blocks),
            reusable,
        )

    def shared(self, prompt: Prompt) -> int:
        """How many blocks a prompt begins with in common."""
        pairs = zip(self.blocks, prompt.blocks, strict=False)
        different = (i for i, (own, other) in enumerate(pairs) if own != other.digest)
        return next(different, min(len(self.blocks), len(prompt.blocks)))

    def tokens(self, num_blocks: int) -> int:
        return self.ends[num_blocks - 1] if num_blocks else 0


class Fingerprints:
    """Fingerprints by the id of the reply, as many as memory allows."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Fingerprint] = OrderedDict()
        self._num_blocks = 0

    def keep(self, reply_id: str, one: Fingerprint) -> None:
        self._drop(self._kept.pop(reply_id, None))
        self._kept[reply_id] = one
        self._num_blocks += len(one.blocks) + 1
        while self._num_blocks > _MAX_BLOCKS and len(self._kept) > 1:
            self._drop(self._kept.popitem(last=False)[1])

    def find(self, reply_id: str, owner: str) -> Fingerprint | None:
        """By the whole id; the API's prefix (`msg_`, `resp_`) may stand before what is kept."""
        found = self._kept.get(reply_id) or self._kept.get(reply_id.partition("_")[2])
        return found if found is not None and found.owner == owner else None

    def clear(self) -> None:
        self._kept.clear()
        self._num_blocks = 0

    def _drop(self, one: Fingerprint | None) -> None:
        self._num_blocks -= 0 if one is None else len(one.blocks) + 1


def anthropic_diagnosis(
    before: Fingerprint | None, prompt: Prompt, state: Literal["ready", "pending"]
) -> dict[str, Any] | None:
    """The `diagnostics` of a reply that names an earlier one; `None` without a divergence.

    Independent of what was read: it compares the requests.
    """
    if before is not None and state == "pending":
        return {"cache_miss_reason": None}
    reason = _anthropic_reason(before, prompt)
    return None if reason is None else {"cache_miss_reason": reason}


def _anthropic_reason(before: Fingerprint | None, prompt: Prompt) -> dict[str, Any] | None:
    if before is None:
        return {"type": "previous_message_not_found"}
    shared = before.shared(prompt)
    missed = {"cache_missed_input_tokens": max(before.reusable - before.tokens(shared), 0)}
    if before.parts["model"] != prompt.parts["model"]:
        # Nothing is shared between models.
        return {"type": "model_changed", "cache_missed_input_tokens": before.reusable}
    # The order in which a prompt is put together: the first divergence is what counts.
    for name in ("tools", "system"):
        if before.parts[name] != prompt.parts[name]:
            return {"type": f"{name}_changed", **missed}
    if shared < len(before.blocks):
        return {"type": "messages_changed", **missed}
    return {"type": "unavailable"} if before.parts["other"] != prompt.parts["other"] else None


def openai_diagnosis(before: Fingerprint | None, prompt: Prompt, read: int) -> dict[str, Any]:
    """The `prompt_cache_diagnostics` of a reply that names one to compare with.

    Args:
        read: Tokens that were read from the cache.
    """
    if before is None:
        return {"type": "comparison_response_not_found"}
    if read and read >= before.reusable:
        return {"type": "cache_hit"}
    shared = before.shared(prompt)
    changed = [reason for reason, own in before.parts.items() if own != prompt.parts[reason]]
    if shared < len(before.blocks):
        changed.append("input_changed")
    known = [reason for reason in changed if reason != "unavailable"]
    if not known:
        return {"type": "cache_hit" if read and not changed else "unavailable"}
    is_later = known[0] in ("tools_changed", "input_changed")
    return {
        "type": "cache_miss",
        "reason": known[0],
        "cache_missed_tokens": prompt.tokens - (before.tokens(shared) if is_later else 0),
        "comparison_reusable_tokens": before.reusable,
    }
