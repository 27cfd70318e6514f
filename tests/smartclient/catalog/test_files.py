"""A file is read whole or refused by name."""

from __future__ import annotations

import re

import pytest

from smartclient import catalog


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "not a file of models: Expecting value", id="empty"),
        pytest.param('{"models": [', "not a file of models: Expecting value", id="cut-off"),
        pytest.param("[" * 100_000, "not a file of models: maximum recursion depth", id="deep"),
        pytest.param(b"\xff\xfe\x00", "not a file of models: 'utf-", id="not-text"),
        pytest.param("[]", 'must hold {"models": [...]} and nothing beside it', id="a-list"),
        pytest.param("{}", 'must hold {"models": [...]} and nothing beside it', id="no-models"),
        pytest.param(
            '{"models": {}}', 'must hold {"models": [...]} and nothing beside it', id="a-mapping"
        ),
        pytest.param(
            '{"models": [], "currency": "EUR"}',
            'must hold {"models": [...]} and nothing beside it',
            id="something-beside",
        ),
        pytest.param(
            '{"models": [{}]}', "models[0]: must be an object with a name", id="without-name"
        ),
        pytest.param('{"models": [3]}', "models[0]: must be an object with a name", id="a-number"),
        pytest.param(
            '{"models": [{"name": "m"}, {"name": "m"}]}',
            "model 'm': given twice, as 'm' before",
            id="twice",
        ),
        pytest.param(
            '{"models": [{"name": "m"}, {"name": "M"}]}',
            "model 'M': given twice, as 'm' before",
            id="twice-in-capitals",
        ),
        pytest.param(
            '{"models": [{"name": "gpt-5.6"}, {"name": "gpt-5.6-sol"}]}',
            "model 'gpt-5.6-sol': given twice, as 'gpt-5.6' before",
            id="twice-by-alias",
        ),
        pytest.param(
            '{"models": [{"name": "m", "prices": {"input": 1, "input": 2, "output": 3}}]}',
            "not a file of models: 'input' is given twice in one object",
            id="a-field-twice",
        ),
        pytest.param(
            '{"models": [{"name": "m", "prices": {"input": NaN, "output": 3}}]}',
            "not a file of models: NaN is not a number that anything can cost",
            id="nan",
        ),
        pytest.param(
            '{"models": [{"name": "m", "prices": {"input": -0.5, "output": 3}}]}',
            "model 'm': prices.input must be at least 0, not -0.5",
            id="negative",
        ),
        pytest.param(
            '{"models": [{"name": "m", "prices": {"input": 1}}]}',
            "model 'm': prices.output is missing; give it beside input, or no prices at all",
            id="a-hole",
        ),
    ],
)
def test_a_bad_file_is_refused_with_its_name_the_model_and_the_field(tmp_path, text, message):
    path = tmp_path / "prices.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: {message}')}"):
        catalog.read(path)


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        catalog.read(tmp_path / "none.json")


def test_numbers_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text('{"models": [{"name": "m", "prices": {"input": 0.10, "output": 1e-3}}]}')

    read = catalog.read(str(path)).model("m").prices

    assert (str(read.input), str(read.output)) == ("0.10", "0.001")
