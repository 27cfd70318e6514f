"""Prompts, lanes and terms, for tests of where marks are placed."""

from __future__ import annotations

from typing import Any

from smartclient import catalog
from smartclient.prompt_cache.lanes import Lanes
from smartclient.prompt_cache.placing import Plan, Rules, place
from smartclient.prompt_cache.terms import Terms, terms_of
from smartclient.prompt_cache.walk import walk

__all__ = ["Talk", "terms"]


def terms(model: str = "claude-opus-5", endpoint: str = "anthropic.messages") -> Terms:
    found = terms_of(catalog.model(model), endpoint=endpoint)
    assert found is not None
    return found


class Talk:
    """Requests to one model, placed one after the other, each of whose marks is written.

    Attributes:
        now: Seconds; every request moves it on.
    """

    def __init__(
        self, model: str = "claude-opus-5", endpoint: str = "anthropic.messages", **rules: Any
    ) -> None:
        self.terms, self.endpoint, self.model = terms(model, endpoint), endpoint, model
        self.rules = Rules(**rules)
        self.lanes, self.now = Lanes(), 0.0
        self.book = self.lanes.book("somebody", lambda: self.terms)

    def send(self, payload: dict[str, Any], *, gap: float = 20.0) -> Plan:
        prompt = walk({"model": self.model, **payload}, endpoint=self.endpoint)
        assert prompt is not None
        self.ticket = self.lanes.enter(self.book, prompt, self.now)
        plan = place(prompt, self.ticket.view(self.now), self.terms, self.rules)
        for mark in plan.kept:
            seconds = self.terms.seconds[mark.ttl]
            self.book.keep(self.ticket.keys[mark.block], mark.ttl, seconds, self.now)
        self.ticket.lane.hold([mark.block for mark in plan.kept], len(prompt.blocks))
        self.now += gap
        return plan
