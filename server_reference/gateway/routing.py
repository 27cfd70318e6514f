"""Which replica a request goes to."""

from __future__ import annotations

from collections.abc import Sequence

from ..api.errors import ApiError
from .replicas import Replica

__all__ = ["Router"]


class Router:
    """Chooses among the replicas of one model.

    Args:
        replicas: At least one.
    """

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.replicas = tuple(replicas)

    @property
    def is_ready(self) -> bool:
        """Whether any replica takes requests."""
        return any(replica.is_ready for replica in self.replicas)

    def choose(self) -> Replica:
        """The ready replica with the fewest sequences.

        Raises:
            ApiError: None is ready.
        """
        ready = [replica for replica in self.replicas if replica.is_ready]
        if not ready:
            raise ApiError(
                "overloaded",
                "no engine is ready: it is loading or starting again; try again in a few seconds",
                retry_after=1,
            )
        return min(ready, key=_load)


def _load(replica: Replica) -> int:
    stats = replica.stats
    return 0 if stats is None else stats.num_running + stats.num_queued
