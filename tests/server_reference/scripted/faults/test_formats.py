from __future__ import annotations

import msgspec
import pytest

from server_reference.scripted.answers import Answer, ToolCall, Usage
from server_reference.scripted.compile import Compiler
from server_reference.scripted.faults.formats import is_end, is_terminal, prefix_text, with_usage
from server_reference.scripted.faults.pieces import Reply, UnfitError
from tests.server_reference.scripted.received import PATHS, a_request

every_api = pytest.mark.parametrize("api", PATHS)
whole_or_stream = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


HELLO = Answer("Hello big world")


def a_reply(api, answer=HELLO, **fields):
    received = a_request(api, **fields)
    return Reply.of(Compiler().answer(answer, received, event_by_event=True)), received


def texts(value):
    """Every text that begins as the answer does, however deep."""
    if isinstance(value, str):
        return [value] if "Hello" in value else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in texts(one)]


@every_api
@whole_or_stream
def test_text_is_prefixed_wherever_the_reply_says_it(api, stream):
    reply, _ = a_reply(api, stream=stream)

    pieces = prefix_text(reply.pieces, "~")

    found = [text for piece in pieces for text in texts(piece.fields)]
    assert found
    assert {text[:6] for text in found} == {"~Hello"}


@every_api
def test_an_answer_without_text_cannot_be_prefixed(api):
    reply, _ = a_reply(api, Answer(tool_calls=[ToolCall("f")]), stream=True)

    with pytest.raises(UnfitError, match="no text"):
        prefix_text(reply.pieces, "~")


@every_api
def test_the_end_begins_with_what_says_that_the_answer_is_whole(api):
    reply, _ = a_reply(api, stream=True)

    ends = [is_end(piece) for piece in reply.pieces]

    assert ends == sorted(ends)
    assert ends[-1]
    assert not ends[-3]
    assert [is_terminal(piece) for piece in reply.pieces].count(True) == 1


@every_api
@whole_or_stream
def test_counts_are_those_that_the_compiler_writes(api, stream):
    usage = Usage(5, 6, {"5m": 7}, 8)
    fields = {"stream": stream, "stream_options": {"include_usage": True}}
    reply, received = a_reply(api, **fields)
    sample, _ = a_reply(api, Answer("Hello big world", usage=usage), **fields)

    changed = with_usage(reply, received, usage)

    decode = msgspec.json.decode
    assert [p.fields for p in changed] == [p.fields for p in sample.pieces]
    assert decode(msgspec.json.encode([p.fields for p in changed]))
