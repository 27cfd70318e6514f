"""`GET /v1/models` and `/v1/models/{id}`, in the shape of the caller's API."""

from __future__ import annotations

from datetime import UTC, datetime

from .errors import ApiError, Shape, shortened
from .service import ModelCard

__all__ = ["list_models", "one_model", "unknown_model"]


def list_models(card: ModelCard, shape: Shape) -> dict[str, object]:
    """The one model that is served, as a list."""
    described = _describe(card, shape)
    if shape == "openai":
        return {"object": "list", "data": [described]}
    return {"data": [described], "has_more": False, "first_id": card.name, "last_id": card.name}


def one_model(card: ModelCard, name: str, shape: Shape) -> dict[str, object]:
    """The model called `name`.

    Raises:
        ApiError: Another one is served.
    """
    if name != card.name:
        raise unknown_model(name, card.name, param=None)
    return _describe(card, shape)


def unknown_model(name: str, served: str, *, param: str | None) -> ApiError:
    """The refusal of a model that is not served."""
    message = f"there is no model {shortened(name)!r} here; this server serves {served!r}"
    return ApiError("not_found", message, param=param, code="model_not_found")


def _describe(card: ModelCard, shape: Shape) -> dict[str, object]:
    if shape == "openai":
        return {
            "id": card.name,
            "object": "model",
            "created": card.created,
            "owned_by": "server_reference",
        }
    return {
        "id": card.name,
        "type": "model",
        "display_name": card.name,
        "created_at": datetime.fromtimestamp(card.created, UTC).isoformat().replace("+00:00", "Z"),
        "lifecycle": "active",
        "max_input_tokens": card.max_tokens,
        "max_tokens": card.max_tokens,
    }
