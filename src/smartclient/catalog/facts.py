"""What is known of a model: prices, limits, cache rules, each as a value with its unit."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from msgspec import Struct

__all__ = ["ImageTokens", "Mode", "ModelFacts", "Prices", "Rates", "Tier"]


class Rates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Dollars per million tokens; `None` is unknown, 0 is free.

    Attributes:
        input: Of input tokens that are computed and not kept.
        output: Of output tokens, reasoning included.
        cache_read: Of input tokens read from the prompt cache.
        cache_write: Of input tokens written to it, by time to live, such as `5m`.
    """

    input: Decimal | None = None
    output: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write: Mapping[str, Decimal] = {}


class Tier(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Other prices for long requests. One without any price says that they are unknown.

    Attributes:
        above: Input tokens, cached ones included, that a request must exceed.
        scope: What then has these prices: every token of the request, output too.
    """

    above: int
    scope: Literal["whole_request"] = "whole_request"


class Mode(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Prices of another way to be served: in a batch, a service tier, a speed.

    Attributes:
        multiplier: On every standard price that the mode does not name itself; `None` where
            it names all that it has.
        tiers: Its own; `None` takes the standard ones times `multiplier`.
    """

    multiplier: Decimal | None = None
    tiers: tuple[Tier, ...] | None = None


class Prices(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a model costs.

    Attributes:
        tiers: Other prices for long requests, by rising `above`.
        batch: In a batch; `None` is unknown.
        service_tiers: By service tier, such as `flex`.
        speeds: By speed, such as `fast`.
        geos: Multipliers on all of it, by the place that a request asks for.
        regions: Multipliers by the region that a cloud's name of the model holds, such as
            `bedrock:us`; `Catalog.model` has applied them to what it returns.
    """

    tiers: tuple[Tier, ...] = ()
    batch: Mode | None = None
    service_tiers: Mapping[str, Mode] = {}
    speeds: Mapping[str, Mode] = {}
    geos: Mapping[str, Decimal] = {}
    regions: Mapping[str, Decimal] = {}


class ImageTokens(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """How many tokens an image is.

    Attributes:
        kind: `tiles`: `base` and `per_tile` for each tile of 512 pixels. `patches`: one per
            square of `patch_pixels`, times `multiplier`.
        max_tokens: What one image counts at most; `None` is unknown.
        max_edge_pixels: The longest edge, to which a larger image is scaled down.
    """

    kind: Literal["tiles", "patches"]
    base: int | None = None
    per_tile: int | None = None
    patch_pixels: int | None = None
    multiplier: Decimal = Decimal(1)
    max_tokens: int | None = None
    max_edge_pixels: int | None = None


class ModelFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is known of one model, and since when. Whatever is unknown is `None`.

    Attributes:
        name: As its maker calls it, without date.
        provider: Who makes it.
        aliases: Other names of it.
        prices: What it costs; `None` is unknown, never free.
        fine_tuned: What a model tuned from it costs.
        min_cache_tokens: The shortest prefix that the prompt cache keeps.
        cache_ttls: Seconds that a prefix is kept, by the name of the time to live: at least
            these, or for OpenAI's models before gpt-5.6 at most.
        context_window: Tokens of input and output together.
        max_input_tokens: Where it is less than the window.
        max_output_tokens: Most tokens of an answer, reasoning included.
        tokenizer: What cuts its text into tokens: an encoding of tiktoken, or a name that
            models with the same unpublished tokenizer share.
        image_tokens: How an image is counted.
        refuses: Parameters that it answers with an error, such as `temperature`;
            `name:value` where only that value is refused.
        retires_on: Day from which on its maker no longer serves it.
        as_of: Day on which the sources said so.
        source: The sources.
        notes: What the numbers cannot say.
        conflicts: Where sources contradict each other, and what the others say.
    """

    name: str
    provider: str | None = None
    aliases: tuple[str, ...] = ()
    prices: Prices | None = None
    fine_tuned: Prices | None = None
    min_cache_tokens: int | None = None
    cache_ttls: Mapping[str, int] | None = None
    context_window: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    tokenizer: str | None = None
    image_tokens: ImageTokens | None = None
    refuses: tuple[str, ...] | None = None
    retires_on: str | None = None
    as_of: str | None = None
    source: str | None = None
    notes: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
