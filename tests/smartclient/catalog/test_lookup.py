"""One warning for what is unknown, and a user's facts over ours."""

from __future__ import annotations

import json
import logging
import re
import threading
from decimal import Decimal

import pytest

from smartclient import catalog
from smartclient.catalog import Catalog, ModelFacts, lookup

A_PRICE = {"input": 1, "output": 2}


@pytest.fixture
def fresh():
    """A catalog that nobody has asked yet."""
    return Catalog(list(catalog.builtin()))


def test_an_unknown_model_is_none_and_one_warning(fresh, caplog):
    answers = [fresh.model("gpt-99"), fresh.model("gpt-99")]

    assert answers == [None, None]
    [record] = caplog.records
    assert (record.name, record.levelno) == ("smartclient", logging.WARNING)
    assert record.getMessage() == (
        "no facts about the model 'gpt-99': its cost and limits stay unknown; "
        "give them by smartclient.catalog.override() or a file"
    )


def test_a_name_that_was_warned_of_is_not_warned_of_again(fresh, caplog):
    fresh.model("gpt-99")
    fresh._found.clear()  # as it is when many names were asked for

    assert fresh.model("gpt-99") is None
    assert len(caplog.records) == 1


def test_threads_that_ask_together_hear_one_warning(fresh, caplog):
    start = threading.Barrier(8)

    def ask():
        start.wait()
        fresh.model("gpt-99")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(caplog.records) == 1


def test_a_name_that_a_user_sent_is_shown_short_and_on_one_line(fresh, caplog):
    fresh.model("x\n" * 10_000)

    message = caplog.records[0].getMessage()
    assert len(message) < 400
    assert "\n" not in message


def test_unknown_names_without_end_fill_neither_memory_nor_log(fresh, caplog, monkeypatch):
    monkeypatch.setattr(lookup, "_MAX_REMEMBERED", 10)

    for number in range(100):
        fresh.model(f"gpt-99-{number}")

    assert len(caplog.records) == 10
    assert len(fresh._found) <= 10


def test_a_name_is_text(fresh):
    with pytest.raises(TypeError, match=r"^a model's name is text, not NoneType$"):
        fresh.model(None)


def test_an_override_replaces_field_by_field():
    mine = catalog.override({"claude-sonnet-4-5": {"prices": {"input": 2.7, "output": 13.5}}})

    ours, theirs = catalog.model("claude-sonnet-4-5"), mine.model("claude-sonnet-4-5-20250929")
    assert (theirs.prices.input, theirs.prices.output) == (Decimal("2.7"), Decimal("13.5"))
    assert theirs.prices.cache_write == ours.prices.cache_write
    assert theirs.max_output_tokens == ours.max_output_tokens
    assert theirs.source == f"override() over {ours.source}"


def test_an_override_leaves_the_catalog_as_it_was():
    catalog.override({"claude-opus-5": {"prices": {"input": 99}}})

    assert catalog.model("claude-opus-5").prices.input == 5


def test_an_override_reaches_into_maps():
    mine = catalog.override({"claude-opus-5": {"prices": {"cache_write": {"1h": 9}}}})

    assert mine.model("claude-opus-5").prices.cache_write == {"5m": Decimal("6.25"), "1h": 9}


def test_none_makes_a_field_unknown():
    mine = catalog.override({"claude-opus-5": {"prices": None, "min_cache_tokens": None}})

    facts = mine.model("claude-opus-5")
    assert (facts.prices, facts.min_cache_tokens) == (None, None)


def test_a_model_that_nobody_knew_begins_empty():
    mine = catalog.override({"Our-Model": {"prices": A_PRICE, "context_window": 4096}})

    facts = mine.model("our-model")
    assert (facts.name, facts.context_window, facts.provider) == ("Our-Model", 4096, None)
    assert facts.source == "override()"


def test_a_deployment_is_named_by_an_alias_and_known_names_stay():
    mine = catalog.override({"gpt-5.6-sol": {"aliases": ["azure/chat-prod"]}})

    assert mine.model("azure/chat-prod").name == "gpt-5.6-sol"
    assert mine.model("gpt-5.6").name == "gpt-5.6-sol"


def test_a_dated_name_gets_a_record_of_its_own():
    mine = catalog.override({"gpt-4.1-2025-04-14": {"prices": {"input": 1}}})

    assert mine.model("gpt-4.1-2025-04-14").prices.input == 1
    assert mine.model("gpt-4.1-2025-04-14").context_window == 1_047_576
    assert mine.model("gpt-4.1").prices.input == 2


def test_overrides_lie_one_over_the_other():
    mine = catalog.override({"m": {"prices": A_PRICE}}).override({"m": {"prices": {"input": 3}}})

    assert (mine.model("m").prices.input, mine.model("m").prices.output) == (3, 2)


def test_a_file_lies_over_ours(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"models": [{"name": "gpt-4.1", "prices": {"input": 1.7}}]}))

    facts = catalog.read(path).model("gpt-4.1")

    assert (facts.prices.input, facts.prices.output) == (Decimal("1.7"), 8)
    assert facts.source.startswith(f"{path} over genai-prices")


@pytest.mark.parametrize(
    ("models", "message"),
    [
        pytest.param(
            {"claude-opus-5": {}, "claude-opus-5-latest": {}},
            "override(): model 'claude-opus-5-latest': given twice, as 'claude-opus-5' before",
            id="twice-by-alias",
        ),
        pytest.param(
            {"m": {"aliases": ["gpt-4.1"]}},
            "override(): two models are called 'gpt-4.1': gpt-4.1, m",
            id="an-alias-that-is-taken",
        ),
        pytest.param(
            {"m": {"name": "n"}},
            "override(): model 'm': name cannot be replaced; add to aliases instead",
            id="another-name",
        ),
        pytest.param(
            {"m": 3}, "override(): model 'm': must be a mapping of fields, not 3", id="no-fields"
        ),
        pytest.param({" ": {}}, "override(): a model's name must be text, not ' '", id="no-name"),
    ],
)
def test_what_two_records_claim_is_refused(models, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        catalog.override(models)


def test_models_must_be_a_mapping():
    with pytest.raises(TypeError, match=r"^models must map names to fields, not list$"):
        catalog.override([])


def test_two_records_of_one_name_are_no_catalog():
    with pytest.raises(ValueError, match="two models are called 'M': m, n"):
        Catalog([ModelFacts(name="m"), ModelFacts(name="n", aliases=("M",))])


def test_a_catalog_is_whatever_means_one(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text('{"models": [{"name": "m", "prices": {"input": 1, "output": 2}}]}')
    mine = Catalog([])

    given = [mine, None, {"m": {"prices": A_PRICE}}, path, str(path)]

    found = [catalog.catalog_of(one) for one in given]
    assert found[:2] == [mine, catalog.builtin()]
    assert [one.model("m").prices.output for one in found[2:]] == [2, 2, 2]


def test_a_number_is_no_catalog():
    with pytest.raises(TypeError, match="a path or a mapping of models to fields, not int"):
        catalog.catalog_of(3)


def test_what_the_reply_calls_the_model_counts_where_the_name_is_unknown(fresh, caplog):
    assert fresh.model("chat-prod", served="gpt-4.1-2025-04-14").name == "gpt-4.1"
    assert fresh.model("gpt-4.1", served="gpt-5.4").name == "gpt-4.1"
    assert caplog.messages == []

    assert fresh.model("chat-prod", served="chat-prod-2") is None
    assert ["chat-prod'" in message for message in caplog.messages] == [True]
