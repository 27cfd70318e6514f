"""Prices and calibrations are checked where they are given."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from smartclient._settings import Settings, settings_of
from smartclient.catalog import Catalog, builtin, override
from smartclient.tokens import Calibrator

MINE = {"m": {"prices": {"input": 1, "output": 2}}}


def test_prices_may_be_given_in_each_form(tmp_path):
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({"models": [{"name": "m", **MINE["m"]}]}))

    for given in (MINE, str(file), file, override(MINE)):
        settings = Settings(catalog=given)
        assert isinstance(settings.catalog, Catalog)
        assert settings.catalog.model("m").prices.input == 1


def test_a_catalog_is_kept_as_it_is():
    settings = Settings(catalog=builtin())

    assert settings_of(settings, {"max_retries": 1}).catalog is builtin()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"catalog": 5}, TypeError, "a catalog is a Catalog, a path or a mapping .* not int"),
        ({"catalog": {"m": {"price": 1}}}, ValueError, "there is no field price"),
        ({"catalog": "/no/such/file"}, FileNotFoundError, "no/such/file"),
        ({"calibrator": "path"}, TypeError, "must be a Calibrator, not str; Calibrator.load"),
    ],
    ids=["type", "field", "file", "calibrator"],
)
def test_what_cannot_be_is_refused_at_once(options, error, message):
    with pytest.raises(error, match=message):
        Settings(**options)


def test_a_calibrator_is_taken_as_it_is():
    given = Calibrator()

    assert Settings(calibrator=given).calibrator is given


def test_neither_is_loaded_before_it_is_needed():
    code = (
        "import sys, smartclient\n"
        "smartclient.Client(api_key='k')\n"
        "print([name for name in sys.modules if name.startswith('smartclient.')\n"
        "    and name.split('.')[1] in ('catalog', 'tokens')])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
