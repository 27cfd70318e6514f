"""What providers do whatever a script says: rate limits, prompt caches, errors of money."""

from __future__ import annotations

from .behaviour import Behaviour
from .cache_rules import CacheRules
from .prompt_cache import PromptCache, Reading
from .rate_limits import Admission, Limits, RateLimits
from .refusals import REFUSALS, Refusal, refusal
from .retry_after import RETRY_AFTER_FORMS, retry_after

__all__ = [
    "REFUSALS",
    "RETRY_AFTER_FORMS",
    "Admission",
    "Behaviour",
    "CacheRules",
    "Limits",
    "PromptCache",
    "RateLimits",
    "Reading",
    "Refusal",
    "refusal",
    "retry_after",
]
