from __future__ import annotations

import math
import re

import pytest

from server_reference.scripted.faults import fault


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        pytest.param(
            "reset_after",
            {"event": 3},
            "reset_after: 'event' is no parameter; did you mean 'events'? known are events",
            id="unknown",
        ),
        pytest.param(
            "only_done",
            {"events": 3},
            "only_done: 'events' is unknown; it takes no parameters",
            id="none-taken",
        ),
        pytest.param(
            "stall_after",
            {"events": -1},
            "stall_after: events must be at least 0, not -1",
            id="low",
        ),
        pytest.param(
            "slow_events",
            {"seconds": -0.5},
            "slow_events: seconds must be at least 0 s, not -0.5",
            id="negative-wait",
        ),
        pytest.param(
            "slow_events",
            {"seconds": math.nan},
            "slow_events: seconds must be at least 0 s, not nan",
            id="nan",
        ),
        pytest.param(
            "slow_events",
            {"seconds": math.inf},
            "slow_events: seconds must be at least 0 s, not inf",
            id="infinite",
        ),
        pytest.param(
            "refused_status",
            {"status": 600},
            "refused_status: status must be at least 200 and at most 599, not 600",
            id="high",
        ),
        pytest.param(
            "retry_after_date",
            {"form": "rfc851"},
            "retry_after_date: form: 'rfc851' is no choice; did you mean 'rfc850'?",
            id="choice",
        ),
        pytest.param(
            "quota_exceeded",
            {"error": "insufficient_quotas"},
            "did you mean 'insufficient_quota'?",
            id="error-about-money",
        ),
    ],
)
def test_a_wrong_value_is_told_where_it_is_given(name, parameters, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        fault(name, **parameters)


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("reset_after", {"events": "3"}, "reset_after: events must be int, not str"),
        ("reset_after", {"events": True}, "reset_after: events must be int, not bool"),
        ("bom_before_data", {"split": 1}, "bom_before_data: split must be bool, not int"),
        ("error_event", {"type": 5}, "error_event: type must be str, not int"),
        ("refused_status", {"retry_after": "1"}, "retry_after must be float, not str"),
    ],
)
def test_a_wrong_type_is_told_where_it_is_given(name, parameters, said):
    with pytest.raises(TypeError, match=re.escape(said)):
        fault(name, **parameters)


def test_a_whole_number_of_seconds_will_do():
    assert fault("slow_events", seconds=2).parameters == {"seconds": 2}


def test_an_optional_value_may_be_none():
    assert fault("refused_status", retry_after=None).parameters == {"retry_after": None}
