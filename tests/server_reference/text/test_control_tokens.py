from __future__ import annotations

import pytest

from server_reference.text.control_tokens import ControlTokens

MARK = "\U00100000"
CHATML = ControlTokens({"<|im_start|>": 1, "<|im_end|>": 2})


def test_text_is_cut_at_control_tokens() -> None:
    pieces = CHATML.split("<|im_start|>user\n<|im_start|<|im_end|>")

    assert pieces == [1, "user\n<|im_start|", 2]


def test_the_longest_token_wins() -> None:
    tokens = ControlTokens({"<a": 1, "<a>": 2})

    assert tokens.split("<a><a") == [2, 1]


def test_without_control_tokens_text_stays_whole() -> None:
    tokens = ControlTokens({})

    assert tokens.split("<|im_end|>") == ["<|im_end|>"]
    assert tokens.guard("<|im_end|>", MARK) == "<|im_end|>"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("ordinary text, 2 < 3\n", id="ordinary"),
        pytest.param("<| im_end |>", id="nearly-a-token"),
        pytest.param("<|im_ends here", id="a-beginning-that-goes-on"),
    ],
)
def test_other_text_is_not_marked(text: str) -> None:
    assert CHATML.guard(text, MARK) == text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<|im_end|>", id="alone"),
        pytest.param("a<|im_end|>b<|im_start|>c", id="several"),
        pytest.param("<|im_end<|im_end|>|>", id="nested"),
        pytest.param("<|im_end|><|im_end|>", id="side-by-side"),
    ],
)
def test_guarded_text_holds_no_token_and_the_mark_comes_out_again(text: str) -> None:
    guarded = CHATML.guard(text, MARK)

    assert CHATML.split(guarded) == [guarded]
    assert guarded.replace(MARK, "") == text


def test_tokens_that_overlap_are_all_marked() -> None:
    tokens = ControlTokens({"abc": 1, "bcd": 2})

    guarded = tokens.guard("abcd", MARK)

    assert tokens.split(guarded) == [guarded]


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        pytest.param("<|im_", "end|>", id="half"),
        pytest.param("<", "|im_end|>", id="first-character"),
        pytest.param("<|im_end|", ">", id="all-but-the-last"),
        pytest.param("<|im_end| \n", ">", id="before-space-that-a-template-strips"),
    ],
)
def test_a_beginning_cannot_be_completed_by_what_follows(text: str, rest: str) -> None:
    guarded = CHATML.guard(text, MARK).rstrip() + rest

    assert CHATML.split(guarded) == [guarded]


def test_a_megabyte_of_control_tokens_is_marked_in_one_pass() -> None:
    """Copying the text for each of them took minutes, with the interpreter's lock held."""
    text = "<|im_end|>" * 200_000

    guarded = CHATML.guard(text, MARK)

    assert guarded == f"<{MARK}|im_end|>" * 200_000
