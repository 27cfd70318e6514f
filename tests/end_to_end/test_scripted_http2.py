"""The scripted server's HTTP/2: every operation's frames, as a raw client sees them."""

from __future__ import annotations

import pytest

from server_reference.scripted import ManualClock, rule
from server_reference.scripted.ops import (
    Body,
    End,
    Fin,
    GoAway,
    HalfClose,
    Head,
    NoCloseNotify,
    Pause,
    Raw,
    Reset,
    ResetStream,
    Settings,
    Starve,
    Wait,
)
from tests.end_to_end.http2_player import ANSWERED, HEAD, OK
from tests.end_to_end.raw_http import until


def asked(client):
    """What comes for one request until the connection ends."""
    client.ask()
    return client.to_the_end()


def test_a_reply_is_headers_data_and_an_end(play):
    client = play(OK)

    client.ask()

    assert client.until("END") == ANSWERED


def test_header_fields_are_small_and_none_of_them_is_of_http1(play):
    fields = (("X-Odd", "é"), ("Connection", "close"), ("Transfer-Encoding", "chunked"))
    client = play([Head(529, fields, framing="length", length=7), End()])

    client.ask()

    expected = {":status": "529", "x-odd": "é", "content-length": "7"}
    assert client.until("END") == [("HEADERS", 1, expected), ("END", 1)]


def test_each_body_is_a_frame_of_its_own_an_empty_one_too(play):
    client = play([Head(200), Body(b"a"), Body(b""), Body(b"bc"), End()])

    client.ask()

    bodies = [("DATA", 1, b"a"), ("DATA", 1, b""), ("DATA", 1, b"bc")]
    assert client.until("END") == [HEAD, *bodies, ("END", 1)]


def test_a_wait_passes_on_the_clock_of_the_server(play, watcher):
    clock = ManualClock()
    client = play([Head(200), Body(b"a"), Wait(60), Body(b"b"), End()], clock=clock)
    client.ask()
    before = client.until("DATA")
    watcher.wait_for("wrote", "Wait", 0)

    until(lambda: clock.sleeping)
    clock.advance(60)

    assert before == [HEAD, ("DATA", 1, b"a")]
    assert client.until("END") == [("DATA", 1, b"b"), ("END", 1)]


def test_a_pause_hangs_one_stream_and_no_other(play):
    client = play([rule([Head(200), Pause()], path="/hang"), rule(OK)])
    client.ask(1, "/hang")
    client.until("HEADERS", 1)

    client.ask(3)

    assert client.until("END", 3)[-1] == ("END", 3)


def test_a_script_without_an_end_hangs(play):
    client = play([Head(200), Body(b"ok")])
    client.ask()
    client.until("DATA", 1)

    client.ping()

    assert client.until("PONG") == [("PONG", b"12345678")]


def test_a_stream_is_reset_with_its_code(play, watcher):
    client = play([Head(200), Body(b"ok"), ResetStream(7)])

    client.ask()

    assert client.until("RST") == [HEAD, ("DATA", 1, b"ok"), ("RST", 1, 7)]
    watcher.wait_for("ended", 1, "cut")
    client.ask(3)
    assert client.until("RST")[-1] == ("RST", 3, 7)


def test_goaway_names_the_newest_stream_and_its_reply_goes_on(play):
    client = play([GoAway(), *OK])

    client.ask()

    assert client.until("END") == [("GOAWAY", 1, 0), *ANSWERED]


def test_streams_after_a_goaway_are_not_taken(play, watcher):
    client = play([GoAway(last_stream_id=1, code=2), *OK])
    client.ask(1)
    told = client.until("END")

    client.ask(3)
    client.ping()

    assert told[0] == ("GOAWAY", 1, 2)
    assert client.until("PONG") == [("PONG", b"12345678")]
    assert ("request", 3, b"") not in watcher.seen


def test_goaway_may_say_that_nothing_was_processed(play, watcher):
    client = play([GoAway(last_stream_id=0), Fin()])

    assert asked(client) == [("GOAWAY", 0, 0)]
    assert client.closed_by == "fin"
    watcher.wait_for("ended", 1, "cut")


def test_settings_are_sent_by_name_right_or_wrong(play):
    values = (("MAX_CONCURRENT_STREAMS", 1), ("MAX_FRAME_SIZE", 1), ("ENABLE_PUSH", 7))
    client = play([Settings(values), *OK])

    client.ask()

    assert client.until("END") == [("SETTINGS", {3: 1, 5: 1, 2: 7}), *ANSWERED]


def test_fewer_streams_count_from_the_clients_acknowledgement_on(play):
    lower = Settings((("MAX_CONCURRENT_STREAMS", 1),))
    client = play([rule([lower, *OK], path="/lower"), rule([Head(200), Pause()])])
    client.ask(1, "/lower")
    client.until("END", 1)

    for number in (3, 5):
        client.ask(number)

    seen = [client.frame(), client.frame()]
    assert sorted(seen, key=str) == [("HEADERS", 3, {":status": "200"}), ("RST", 5, 7)]


def test_a_stream_too_many_is_refused_from_the_start(play):
    client = play([Head(200), Pause()], http2_settings={"MAX_CONCURRENT_STREAMS": 1})

    client.ask(1)
    client.ask(3)

    assert client.first == ("SETTINGS", {3: 1, 6: 65_536})
    assert client.until("RST")[-1] == ("RST", 3, 7)


def test_windows_are_granted_as_they_are_used(play, watcher):
    client = play(OK)

    client.begin()
    client.data(1, bytes(16_384))
    client.data(1, bytes(16_384))
    client.data(1, b"!", ends=True)

    granted = [one for one in client.until("END") if one[0] == "WINDOW"]
    assert granted == [("WINDOW", 0, 32_768), ("WINDOW", 1, 32_768)]
    assert ("request", 1, bytes(32_768) + b"!") in watcher.seen


def test_who_sends_past_the_announced_window_is_refused(play, watcher):
    client = play(OK, http2_settings={"INITIAL_WINDOW_SIZE": 4})
    client.begin()

    client.data(1, b"12345")

    assert client.to_the_end()[-1] == ("GOAWAY", 1, 3)
    watcher.wait_for("closed", "h2", "bad request")


def test_a_starved_client_is_granted_nothing_more(play):
    client = play([Starve(), *OK])
    client.ask()
    client.until("END", 1)

    client.begin(3)
    for _ in range(3):
        client.data(3, bytes(16_384))
    client.ping()

    assert client.until("PONG") == [("PONG", b"12345678")]


@pytest.mark.parametrize(
    ("op", "tls", "how", "reason"),
    [
        pytest.param(Fin(), False, "fin", "server", id="fin"),
        pytest.param(Fin(), True, "fin", "server", id="fin-tls"),
        pytest.param(Reset(), False, "reset", "server reset", id="reset"),
        pytest.param(NoCloseNotify(), True, "no close_notify", "server", id="no-close-notify"),
    ],
)
def test_a_script_closes_the_connection(play, watcher, op, tls, how, reason):
    clock = ManualClock()
    client = play([Head(200), Body(b"ok"), Wait(1), op], tls=tls, clock=clock)
    client.ask()
    seen = client.until("DATA", 1)
    until(lambda: clock.sleeping)

    clock.advance(1)

    assert seen == [HEAD, ("DATA", 1, b"ok")]
    assert (client.to_the_end(), client.closed_by) == ([], how)
    watcher.wait_for("closed", "h2", reason)
    assert ("ended", 1, "cut") in watcher.seen


def test_a_close_cuts_the_other_streams_too(play, watcher):
    client = play([rule([Head(200), Pause()], path="/hang"), rule([Fin()])])
    client.ask(1, "/hang")
    client.until("HEADERS", 1)

    client.ask(3)

    assert client.to_the_end() == []
    watcher.wait_for("ended", 1, "cut")


def test_half_a_connection_may_close(play, watcher):
    client = play([Head(200), HalfClose()])

    assert asked(client) == [HEAD]
    assert client.closed_by == "fin"
    client.close()
    watcher.wait_for("closed", "h2", "server")


def test_what_is_of_http1_alone_is_left_out(play):
    client = play([Head(200), Raw(b"\0garbage"), Body(b"ok"), End()])

    client.ask()

    assert client.until("END") == ANSWERED


def test_a_body_after_the_end_is_data_on_a_closed_stream(play):
    client = play([*OK, Body(b"more")])

    client.ask()

    assert client.until("DATA", 1, b"more") == [*ANSWERED, ("DATA", 1, b"more")]


def test_what_an_operation_puts_on_the_wire_is_told_with_its_size(play, watcher):
    client = play([Head(200), Body(b"ok"), Wait(0), End()])

    client.ask()
    client.until("END")

    watcher.wait_for("ended", 1, "complete")
    wrote = [one[1:] for one in watcher.seen if one[0] == "wrote"]
    assert wrote == [("Head", 10), ("Body", 11), ("Wait", 0), ("End", 9)]
