"""What another request of Messages still reads after a change, with another key, in a chat."""

from __future__ import annotations

import pytest

from server_reference.scripted.providers.cache_rules import CacheRules
from tests.server_reference.scripted.providers.anthropic_prompts import PROMPT, SYSTEM, assistant
from tests.server_reference.scripted.providers.requests import Asking, marked, messages, text, user


@pytest.fixture
def asking():
    return Asking()


class TestInvalidation:
    """Which tier a change takes with it; the tiers are 2,000, 1,000 and 500 tokens."""

    def ask(self, asking, *, tool="t", system="a", image=False, beta="", **fields):
        tools = [{"name": tool, "description": text(1990)}, marked({"name": "z"})]
        picture = [{"type": "image", "source": {}}] if image else []
        turn = user([marked(text(500)), *picture])
        system_blocks = [marked(text(1000, system))]
        request = messages(turn, tools=tools, system=system_blocks, beta=beta, **fields)
        return asking.begin(request)

    @pytest.mark.parametrize(
        "changed",
        [{"tool": "u"}, {"model": "claude-opus-5"}],
        ids=["tool", "model"],
    )
    def test_loses_everything(self, asking, changed):
        self.ask(asking)

        assert self.ask(asking, **changed).cache_read == 0

    @pytest.mark.parametrize(
        "changed",
        [{"system": "b"}, {"speed": "fast"}],
        ids=["system text", "speed"],
    )
    def test_keeps_the_tools(self, asking, changed):
        whole = self.ask(asking)

        read = self.ask(asking, **changed).cache_read

        assert read == sum(whole.cache_write.values()) - 1500

    @pytest.mark.parametrize(
        "changed",
        [
            {"tool_choice": {"type": "any"}},
            {"image": True},
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
            {"output_config": {"effort": "low"}},
            {"output_format": {"type": "json_schema"}},
            {"context_management": {"edits": []}},
            {"beta": "one-2026-01-01"},
        ],
        ids="tool_choice image thinking effort output_format context_management beta".split(),
    )
    def test_keeps_the_tools_and_the_system_prompt(self, asking, changed):
        whole = self.ask(asking)

        read = self.ask(asking, **changed).cache_read

        assert read == sum(whole.cache_write.values()) - 500

    def test_web_search_keeps_the_tools(self, asking):
        tools = [marked({"name": "t", "description": PROMPT})]
        asking.begin(messages("hi", tools=tools, system=SYSTEM))

        search = {"type": "web_search_20260101", "name": "web_search"}
        reading = asking.begin(messages("hi", tools=[search, *tools], system=SYSTEM))

        assert 1000 <= reading.cache_read < 1100

    def test_citations_keep_the_tools(self, asking):
        tools = [marked({"name": "t", "description": PROMPT})]
        asking.begin(messages("hi", tools=tools, system=SYSTEM))

        document = {"type": "document", "source": {}, "citations": {"enabled": True}}
        reading = asking.begin(messages(user(document), tools=tools, system=SYSTEM))

        assert 1000 <= reading.cache_read < 1100

    def test_the_order_of_beta_headers_changes_nothing(self, asking):
        self.ask(asking, beta="one, two")

        assert self.ask(asking, beta="two,one").cache_write == {}


class TestScope:
    def test_another_key_reads_nothing(self, asking):
        asking.begin(messages("hi!!", system=SYSTEM, key="sk-1"))

        assert asking.begin(messages("hi!!", system=SYSTEM, key="sk-2")).cache_read == 0

    def test_keys_of_one_workspace_share(self):
        asking = Asking(CacheRules(workspaces={"sk-1": "w", "sk-2": "w"}))
        asking.begin(messages("hi!!", system=SYSTEM, key="sk-1"))

        assert asking.begin(messages("hi!!", system=SYSTEM, key="sk-2")).cache_read == 1000


class TestScenarios:
    def test_a_growing_chat_writes_the_delta_and_reads_the_rest(self, asking):
        turns = [user(text(600))]
        for number in range(5):
            sent = [*turns[:-1], user(marked(turns[-1]["content"]))]
            reading = asking.begin(messages(*sent, system=SYSTEM))
            turns += [assistant({"type": "text", "text": text(20)}), user(text(30, f"{number}"))]

        assert reading.cache_write == {"5m": 50}
        assert reading.cache_read / reading.input_tokens > 0.9

    def test_a_timestamp_in_the_system_prompt_is_written_again_and_again(self, asking):
        turns = [
            asking.begin(messages("hi", system=[marked(f"{PROMPT} it is {hour} o'clock")]))
            for hour in range(3)
        ]

        assert [one.cache_read for one in turns] == [0, 0, 0]
        assert all(one.cache_write["5m"] > 1000 for one in turns)

    def test_a_mark_before_the_timestamp_keeps_the_hit(self, asking):
        turns = [
            asking.begin(
                messages("hi", system=[marked(PROMPT), {"type": "text", "text": f"it is {hour}"}])
            )
            for hour in range(3)
        ]

        assert [one.cache_read for one in turns] == [0, 1000, 1000]

    def test_eviction_by_chance_loses_about_its_share_and_always_the_same(self):
        def reads():
            asking = Asking(CacheRules(eviction_rate=0.4, seed=7))
            return [asking.begin(messages("hi", system=SYSTEM)).cache_read for _ in range(200)]

        assert reads() == reads()
        assert 90 < reads().count(1000) < 150
