from __future__ import annotations

from server_reference.scripted.nearest import nearest, unknown

KNOWN = ["path", "model", "system"]


def test_the_name_most_like_it_is_nearest():
    assert nearest("modle", KNOWN) == "model"


def test_nothing_is_near_to_what_is_like_none():
    assert nearest("xyz", KNOWN) is None


def test_the_sentence_names_the_nearest_and_all():
    said = unknown("condition", "modle", KNOWN)

    assert said == ("'modle' is no condition; did you mean 'model'? known are model, path, system")
