"""What an attempt of a call cost, by what its request asked for and its reply says."""

from __future__ import annotations

from msgspec.structs import replace

from .._call import Attempt
from ..wire import Served
from .costs import Cost, cost
from .lookup import CatalogLike, catalog_of

__all__ = ["priced"]

_AS_USUAL = Served()


def priced(attempt: Attempt, catalog: CatalogLike | None = None) -> Cost | None:
    """What `attempt` cost; `None` where its tokens, or its model, are not known.

    The model is the one that its own request names, so that one which was served by another
    after a downgrade costs what that one does; where its name is unknown, the reply's. How it
    was served is what the reply says, and what the request asked for where it says nothing.
    What tools of the provider cost, such as a search, is not known, and leaves the total unknown.

    Args:
        catalog: Whose prices; `None` takes those that come with this version.
    """
    served = attempt.billed_as or _AS_USUAL
    model = attempt.model or served.model
    if attempt.usage is None or model is None:
        return None
    found = cost(
        attempt.usage,
        catalog_of(catalog).model(model, served=served.model),
        service_tier=served.service_tier,
        speed=served.speed,
        geo=served.geo,
    )
    if found is None or not attempt.has_fees:
        return found
    return replace(found, total=None, missing=(*found.missing, "fees for tools of the provider"))
