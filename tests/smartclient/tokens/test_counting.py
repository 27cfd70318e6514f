"""Requests of any form, counted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smartclient
from smartclient.tokens import Calibrator, count
from smartclient.tokens.counting import Tokenizers, endpoint_of
from smartclient.tokens.vocabulary import Vocabularies
from smartclient.wire.anthropic_types import Message
from tests.layers import ROOT
from tests.smartclient.tokens.samples import JARGON, fields

ASKED = [{"role": "user", "content": "Hello"}]
SAME_TEXT = json.loads((ROOT / "src/smartclient/tokens/same_text.json").read_text())
MODELS = ["gpt-4o", "gpt-4", "gpt-5.1", "gpt-6", "claude-opus-4-6", "claude-opus-5", "unknown"]

NAMES = st.sampled_from(
    "type role content text image_url source data tools function input name parameters properties "
    "items messages system instructions tool_choice output_config format text".split()
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


class Nothing(Vocabularies):
    """A machine without any vocabulary."""

    def get(self, encoding, *, wait=True):
        return None


@pytest.fixture
def bare():
    return Tokenizers(Nothing())


class Counting(Vocabularies):
    """Notes which texts are counted."""

    def __init__(self):
        super().__init__()
        self.counted = []

    def get(self, encoding, *, wait=True):
        def count_many(texts):
            self.counted += texts
            return [1] * len(texts)

        return count_many


class Stubborn:
    """Says that it can become a mapping, and cannot."""

    def to_dict(self):
        raise RuntimeError("not now")


def asked(content):
    return {"messages": [{"role": "user", "content": content}]}


def nested(depth):
    """Results of tools, each in another one."""
    content = "Hi"
    for _ in range(depth):
        content = [{"type": "tool_result", "content": content}]
    return content


@pytest.mark.parametrize(
    ("body", "name", "endpoint"),
    [
        pytest.param({"messages": ASKED}, "gpt-4o", "openai.chat", id="chat"),
        pytest.param({"messages": ASKED}, "claude-opus-5", "anthropic.messages", id="claude"),
        pytest.param({"messages": JARGON}, "claude-opus-5", "openai.chat", id="claude-elsewhere"),
        pytest.param(
            {"messages": ASKED, "tools": [{"type": "function", "function": {}}]},
            "claude-opus-5",
            "openai.chat",
            id="claude-with-functions",
        ),
        pytest.param({"messages": ASKED, "system": "x"}, "", "anthropic.messages", id="system"),
        pytest.param(
            {"messages": ASKED, "tools": [{"input_schema": 0}]},
            "",
            "anthropic.messages",
            id="tool",
        ),
        pytest.param(
            {"messages": [{"content": [{"type": "tool_use"}]}]},
            "",
            "anthropic.messages",
            id="block",
        ),
        pytest.param({"input": "Hello"}, "gpt-4o", "openai.responses", id="responses"),
        pytest.param({"prompt": "Hello"}, "gpt-4o", "text", id="completions"),
        pytest.param("Hello", "gpt-4o", "text", id="text"),
        pytest.param({"messages": None, "tools": [None, "x"]}, "", "openai.chat", id="nonsense"),
    ],
)
def test_a_format_is_told_by_its_fields(body, name, endpoint):
    assert endpoint_of(body, name) == endpoint


@pytest.mark.parametrize(
    ("body", "model", "tokens"),
    [
        pytest.param({"input": "Hello there"}, "text-embedding-3-small", 2, id="embedding"),
        pytest.param({"input": ["Hello", "Hello"]}, "text-embedding-3-large", 2, id="two"),
        pytest.param({"input": [1, 2, 3]}, "text-embedding-3-small", 3, id="tokens"),
        pytest.param({"prompt": "Hello there"}, "gpt-3.5-turbo-instruct", 2, id="completions"),
        pytest.param({}, "gpt-4o", 1, id="nothing"),
    ],
)
def test_text_alone_has_no_overhead(body, model, tokens):
    assert fields(body, model) == (tokens, tokens, tokens)


def test_the_format_may_be_said():
    payload = {"messages": [{"role": "user", "content": "Hello"}]}

    chat, messages = (
        count(payload, model="gpt-4o", endpoint=endpoint).p50
        for endpoint in ("openai.chat", "anthropic.messages")
    )

    assert (chat, messages) == (8, 6)


@pytest.mark.parametrize("form", [dict, json.dumps, lambda body: json.dumps(body).encode()])
def test_a_body_may_be_a_mapping_or_json(form):
    assert fields(form({"messages": JARGON})) == (124, 124, 124)


def test_messages_of_ours_count_as_what_they_hold():
    answer = Message.of({"role": "assistant", "content": [{"type": "text", "text": "Paris"}]})

    assert fields({"messages": [answer]}, "claude-opus-5") == fields(
        {"messages": [answer.to_dict()]}, "claude-opus-5"
    )


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param("", id="empty"),
        pytest.param(b"", id="no-bytes"),
        pytest.param("{", id="half-json"),
        pytest.param(b"\xff\xfe", id="no-utf-8"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"a":' * 100_000, id="deep-object"),
        pytest.param("<|endoftext|>", id="control-token"),
        pytest.param("\ud800", id="surrogate"),
        pytest.param({"messages": [{"role": "user", "content": "\ud800<|im_end|>"}]}, id="chat"),
        pytest.param({"messages": 7, "tools": 7, "system": 7}, id="numbers"),
        pytest.param(None, id="nothing"),
        pytest.param(asked([{"type": ["text"], "text": {}}]), id="a-type-that-is-no-name"),
        pytest.param({"tools": [{"type": []}], "input": "Hi"}, id="a-tool-of-no-name"),
        pytest.param({"system": "", **asked(nested(5_000))}, id="deep-results"),
        pytest.param(asked([10**5_000]), id="a-number-without-end"),
        pytest.param(asked([Stubborn(), Stubborn]), id="objects-that-become-nothing"),
        pytest.param(Stubborn(), id="an-object"),
    ],
)
@pytest.mark.parametrize("model", MODELS)
def test_nothing_is_an_error(payload, model):
    counted = count(payload, model=model)

    assert 0 <= counted.p05 <= counted.p50 <= counted.p95


@pytest.mark.parametrize("endpoint", ["openai.chat", "openai.responses", "anthropic.messages"])
@given(body=st.dictionaries(NAMES, json_values, max_size=5), model=st.sampled_from(MODELS))
def test_no_body_of_any_form_is_an_error(endpoint, body, model):
    counted = count(body, model=model, endpoint=endpoint)

    assert 0 <= counted.p05 <= counted.p50 <= counted.p95


@pytest.mark.parametrize(
    ("model", "source"),
    [("gpt-4o", "tokenizer"), ("gpt-6", "heuristic"), ("claude-opus-5", "heuristic")],
)
def test_the_source_says_whether_text_was_counted(model, source):
    assert count({"messages": JARGON}, model=model).source == source


@pytest.mark.parametrize(
    ("language", "model", "kind"),
    [
        pytest.param("English", "claude-opus-5", "text", id="prose"),
        pytest.param("JSON", "claude-opus-5", "code", id="json"),
        pytest.param("Russian", "claude-opus-5", "other_script", id="other-script"),
        pytest.param("JSON", "gpt-4o", "text", id="counted-exactly"),
    ],
)
def test_text_that_is_estimated_is_told_by_its_kind(language, model, kind):
    """The ratio is another in code and other scripts, so calibration keeps them apart."""
    messages = [{"role": "user", "content": SAME_TEXT[language]}]

    assert count({"messages": messages}, model=model).kind == kind


@pytest.mark.parametrize("language", SAME_TEXT)
def test_without_a_vocabulary_an_estimate_holds_the_truth_and_says_so(language, truth, bare):
    text = SAME_TEXT[language]

    counted = count(text, model="gpt-4o", tokenizers=bare)

    assert counted.p05 <= truth["o200k_base"](text) <= counted.p95
    assert counted.source == "heuristic"


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-opus-5"])
@pytest.mark.parametrize("language", SAME_TEXT)
def test_a_vocabulary_narrows_the_band_of_other_models(language, model, bare):
    known, guessed = (
        count(SAME_TEXT[language], model=model, **given) for given in ({}, {"tokenizers": bare})
    )

    assert known.p95 / known.p50 < guessed.p95 / guessed.p50
    assert known.p50 == pytest.approx(guessed.p50, rel=0.2)


def test_a_growing_chat_costs_its_new_turn_only():
    vocabularies = Counting()
    tokenizers = Tokenizers(vocabularies)
    count({"messages": JARGON}, model="gpt-4o", tokenizers=tokenizers)
    vocabularies.counted.clear()

    grown = [*JARGON, {"role": "user", "content": "A new turn."}]
    count({"messages": grown}, model="gpt-4o", tokenizers=tokenizers)

    assert vocabularies.counted == ["A new turn."]


def test_an_estimate_is_not_kept_for_when_the_vocabulary_is_there():
    tokenizers = Tokenizers(Nothing())
    estimated = count("Hello there", model="gpt-4o", tokenizers=tokenizers)

    tokenizers.vocabularies = Vocabularies()

    assert count("Hello there", model="gpt-4o", tokenizers=tokenizers).p50 == 2
    assert estimated.source == "heuristic"


def test_a_huge_text_is_counted_in_pieces():
    counted = count("Some words and more. " * 500_000, model="gpt-4o")

    assert counted.p50 == pytest.approx(2_500_001, abs=5)
    assert counted.p95 - counted.p50 < 1000


@pytest.mark.parametrize("text", ["a" * 200_000, "漢字。" * 70_000, "=" * 200_000])
def test_a_text_that_had_to_be_cut_inside_a_word_has_a_band_for_it(text, truth):
    counted = count(text, model="gpt-4o")

    assert counted.p05 <= truth["o200k_base"](text) <= counted.p95
    assert counted.p05 < counted.p50 < counted.p95


def test_earlier_calls_correct_a_count():
    calibrator = Calibrator()
    counted = count({"messages": JARGON}, model="openai/claude-x", provider="here")
    for _ in range(20):
        calibrator.observe(counted, 2 * counted.p50, provider="here", model="claude-x")

    corrected = count(
        {"messages": JARGON}, model="openai/claude-x", provider="here", calibrator=calibrator
    )

    assert corrected.source == "calibrated"
    assert corrected.p50 == pytest.approx(2 * counted.p50, rel=0.05)
    assert corrected.estimate == counted.p50


def test_a_provider_is_told_by_the_format():
    calibrator = Calibrator()
    counted = count({"messages": ASKED}, model="claude-opus-5")
    for _ in range(5):
        calibrator.observe(counted, counted.p50, provider="anthropic", model="claude-opus-5")

    again = count({"messages": ASKED}, model="claude-opus-5", calibrator=calibrator)

    assert again.source == "calibrated"


def test_counting_loads_neither_fit_nor_boilerplate():
    show = "import smartclient.tokens, sys; print([n for n in sys.modules if 'fitting' in n])"

    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_no_part_of_the_package():
    with pytest.raises(AttributeError, match="has no attribute 'fits'"):
        _ = smartclient.tokens.fits


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"model": None}, TypeError, "model must be text, not NoneType"),
        ({"model": "m", "endpoint": "chat"}, ValueError, "one of anthropic.messages, openai.chat"),
    ],
)
def test_a_model_or_a_format_that_cannot_be_is_refused(options, error, told):
    with pytest.raises(error, match=told):
        count("Hello", **options)
