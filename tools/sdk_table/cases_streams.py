"""The cases of event streams: how they are parsed, how they end, and what is in them."""

from __future__ import annotations

from collections.abc import Mapping

from .cases import Case, error, said

__all__ = ["CASES"]

_WEATHER = ("get_weather", '{"city":"Paris"}')
_TIME = ("get_time", '{"zone":"UTC"}')
_CONTENT = {"events": 4}  # some of the text, in every format
_NOTE = ("note", '{"price_eur":12345.67}')

_SSE: Mapping[str, Case] = {
    "bom_before_data": Case(helper=True),
    "charset_missing": Case(),
    "comment_after_id": Case(),
    "comments_between": Case(),
    "content_type_in_capitals": Case(),
    "content_type_with_semicolon": Case(),
    "cr_only": Case(),
    "crlf_split": Case(),
    "done_with_spaces": Case(),
    "endless_event": error(parameters={"mib": 33.0}, patience=120.0, times=1, alone=True),
    "event_without_data": Case(),
    "frames_after_done": Case(),
    "html_instead_of_stream": error(),
    "huge_line": said("a" * 2**21),
    "id_only_block": Case(),
    "json_instead_of_stream": error(),
    "mixed_line_ends": Case(),
    # What is lost is `[DONE]` in one format, and the terminal event in the others.
    "no_blank_line": Case(right={"openai.chat": "answer", "*": "error"}),
    "no_space_after_colon": Case(),
    "retry_only_block": Case(),
    "split_characters": said("é€😀"),
    "two_spaces_after_colon": Case(),
    "unicode_line_separators": said("\u2028\u2029\x85"),
    "wrong_charset": said("é€ "),
}

_END: Mapping[str, Case] = {
    "cut_after": error(parameters=_CONTENT),
    "cut_before_terminal": error(),
    "empty_stream": error(),
    "error_after_content": error(attempts=1),
    "error_beside_choices": error(),
    "error_event": Case(times=1, attempts=2),
    "error_object": error(parameters={"after": 4}),
    "fin_after": error(parameters=_CONTENT, attempts=1),
    "fin_instead_of_terminator": Case(),
    "fin_mid_chunk": error(parameters=_CONTENT, attempts=1),
    "half_close_after": error(parameters=_CONTENT, patience=3.0),
    "late_terminator": Case(
        parameters={"seconds": 0.002},
        plan="ask ask ask",
        right="answer answer answer",
        connections=1,
        alone=True,
    ),
    "no_done": Case(),
    "only_done": error(),
    "overloaded_as_api_error": Case(times=1, attempts=2),
    "reset_after": error(parameters=_CONTENT, attempts=1),
    "reset_mid_chunk": error(parameters=_CONTENT, attempts=1),
    "short_body": error(stream=False),
}

_SHAPE: Mapping[str, Case] = {
    "arguments_split": Case(text="", calls=(_NOTE,), helper=True),
    "choice_without_delta": Case(helper=True),
    "chunk_without_choices": Case(helper=True),
    "null_arguments": Case(text="", calls=(_WEATHER,), helper=True),
    "null_usage": Case(helper=True),
    "ping_between": Case(helper=True),
    "tool_delta_before_start": Case(text="", calls=(_WEATHER,), helper=True),
    "tool_index_reused": Case(text="", calls=(_WEATHER, _TIME), helper=True),
    "unknown_block": Case(helper=True),
    # Kept or skipped: where it is text, a caller may rather have it.
    "unknown_block_index": Case(helper=True, right="answer|altered"),
    "unknown_event": Case(helper=True),
    "unknown_fields": Case(helper=True),
    "usage_after_finish": Case(helper=True, usage=(7, 0, 5)),
    "usage_on_every_chunk": Case(helper=True, usage=(7, 0, 5)),
    "usage_then_null": Case(helper=True, usage=(7, 0, 5)),
}

CASES: Mapping[str, Case] = {**_SSE, **_END, **_SHAPE}
