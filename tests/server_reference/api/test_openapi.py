from __future__ import annotations

import json
import re

import pytest

from server_reference.api.app import create_app
from server_reference.api.errors import ApiError, error_types
from server_reference.api.openapi import _GET_REFUSALS, _REFUSALS, _UNREAD, describe
from server_reference.api.service import ModelCard

DOCUMENT = describe(ModelCard("tiny", 0, 4096))


def references(node):
    found = re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(node))
    return {tuple(reference.split("/")) for reference in found}


def at(path):
    node = DOCUMENT
    for name in path:
        node = node[name]
    return node


def test_every_route_is_described_and_nothing_else(service):
    routes = create_app(service).routes

    served = {(route.path.replace("{name:path}", "{id}"), *route.methods) for route in routes}

    described = {
        (path, *({"GET", "HEAD"} if "get" in operations else {"POST"}))
        for path, operations in DOCUMENT["paths"].items()
    }
    assert {(path, *sorted(methods)) for path, *methods in served} == {
        (path, *sorted(methods)) for path, *methods in described
    }


def test_every_reference_leads_somewhere_and_every_component_is_used():
    components = DOCUMENT["components"]

    defined = {
        ("components", kind, name) for kind in ("schemas", "responses") for name in components[kind]
    }

    assert references(DOCUMENT) == defined
    assert all(at(path) for path in defined)


def test_operations_have_names_of_their_own():
    operations = [
        operation
        for path in DOCUMENT["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]

    assert len({operation["operationId"] for operation in operations}) == len(operations) == 11


@pytest.mark.parametrize("shape", ["anthropic", "openai"])
@pytest.mark.parametrize("kind", _REFUSALS)
def test_an_error_is_described_with_the_status_and_type_that_it_has(kind, shape):
    status, type_ = error_types(kind, shape)
    path = "/v1/messages" if shape == "anthropic" else "/v1/responses"

    (reference,) = references(at(["paths", path, "post", "responses", str(status)]))

    assert status == ApiError(kind, "x").status(shape)
    assert f'"type": {{"const": "{type_}"}}' in json.dumps(at(reference))


def test_a_request_without_a_body_is_refused_for_less():
    assert set(_UNREAD) < set(_GET_REFUSALS) < set(_REFUSALS)
    assert "503" not in at(["paths", "/v1/models", "get", "responses"])


def test_only_probes_need_no_key():
    open_to_all = {
        path
        for path, operations in DOCUMENT["paths"].items()
        if operations.get("get", {}).get("security") == []
    }

    assert open_to_all == {"/health", "/health/live", "/health/ready"}
