from __future__ import annotations

import pytest

from server_reference.gateway.config import ServerConfig


def test_options_go_to_the_engine_or_to_the_server():
    config = ServerConfig.of("tiny", {"num_blocks": 9, "api_keys": ["k"], "port": 8000})

    assert (config.engine.model, config.engine.num_blocks) == ("tiny", 9)
    assert (config.api_keys, config.port) == (["k"], 8000)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        pytest.param("max_seqs", "max_num_seqs", id="engine"),
        pytest.param("api_key", "api_keys", id="server"),
        pytest.param("engine", "there are admin_key, api_keys", id="not-an-option"),
        pytest.param("qqq", "there are admin_key, api_keys", id="nothing-near"),
    ],
)
def test_an_unknown_option_is_answered_with_the_nearest(name, near):
    with pytest.raises(TypeError, match=near):
        ServerConfig.of("tiny", {name: 1})


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"port": 70_000}, id="port"),
        pytest.param({"max_body_bytes": 0}, id="body"),
        pytest.param({"max_body_bytes": "1"}, id="body-text"),
        pytest.param({"port": "http"}, id="port-text"),
        pytest.param({"host": 5}, id="host-number"),
        pytest.param({"request_log": 5}, id="log-number"),
        pytest.param({"block_size": 0}, id="engine"),
        pytest.param({"block_size": 1.5}, id="engine-fraction"),
        pytest.param({"num_blocks": "5"}, id="engine-text"),
        pytest.param({"num_blocks": 0}, id="engine-no-blocks"),
        pytest.param({"threads": True}, id="engine-boolean"),
        pytest.param({"threads": 99_999_999}, id="engine-too-many"),
        pytest.param({"seed": 2**80}, id="engine-seed-too-long"),
        pytest.param({"one_copy": "yes"}, id="engine-no-boolean"),
        pytest.param({"dtype": None}, id="engine-no-dtype"),
    ],
)
def test_a_wrong_value_is_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        ServerConfig.of("tiny", options)


def test_a_model_that_is_no_text_is_refused():
    with pytest.raises(ValueError, match="model must be a name or a path, not 5"):
        ServerConfig.of(5, {})
