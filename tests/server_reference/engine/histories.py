"""Random histories of an engine: arrivals, steps and aborts in any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st

from server_reference.core import GenerateRequest
from server_reference.engine.engine import Engine

__all__ = ["histories", "live_through"]


def histories(ids: Iterable[str], *, most_steps: int, max_size: int) -> st.SearchStrategy:
    names = st.sampled_from(list(ids))
    operations = st.one_of(
        st.tuples(st.just("add"), names),
        st.tuples(st.just("step"), st.integers(1, most_steps)),
        st.tuples(st.just("abort"), names),
    )
    return st.lists(operations, max_size=max_size)


def live_through(
    history: Iterable[tuple[str, object]],
    engine: Engine,
    recorder,
    requests: Mapping[str, GenerateRequest],
) -> set[str]:
    """Play a history to its end, the books checked after every event.

    Returns:
        The ids of those that were not aborted.
    """
    live: set[str] = set()
    for operation, argument in history:
        if operation == "step":
            recorder.run(engine, steps=argument)
        elif operation == "abort":
            engine.abort(argument)
            live.discard(argument)
        elif argument not in live or recorder.has_finished(argument):
            recorder.updates.pop(argument, None)
            recorder.logits.pop(argument, None)
            engine.add(requests[argument])
            live.add(argument)
        engine.scheduler.check()
    recorder.run(engine)
    return live
