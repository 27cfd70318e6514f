"""The fit of the estimate's weights."""

from __future__ import annotations

import json

from smartclient.tokens.estimate import FEATURES
from tools.fit_token_estimate import corpus, fit, main


def test_every_feature_gets_a_weight_that_takes_nothing_away():
    weights = fit(corpus()[::3])

    assert tuple(weights) == FEATURES
    assert min(weights.values()) >= 0


def test_it_prints_the_weights_and_how_well_they_do(capsys):
    assert main() == 0

    weights, _, quality = capsys.readouterr().out.partition("}\n")
    assert tuple(json.loads(weights + "}")) == FEATURES
    assert quality.startswith("50% within ")
