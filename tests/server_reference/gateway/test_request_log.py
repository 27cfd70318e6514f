from __future__ import annotations

import json
import threading
from datetime import UTC, datetime

from server_reference.api.record import CallRecord
from server_reference.gateway.request_log import RequestLog, line_of


def a_record(**fields):
    record = CallRecord("/v1/messages")
    for name, value in fields.items():
        setattr(record, name, value)
    return record


def test_a_line_has_tokens_and_stages():
    record = a_record(tenant="t", model="tiny", status=200, outcome="stop", input_tokens=9)
    record.note("queue", 0.5, 0.25)

    line = line_of(record, now=datetime(2026, 11, 29, tzinfo=UTC))

    assert line["at"] == "2026-11-29T00:00:00.000Z"
    assert line["request_id"] == record.id
    assert (line["tenant"], line["input_tokens"], line["cache_read"]) == ("t", 9, None)
    assert line["stages"] == {"queue": {"start": 0.5, "duration": 0.25}}


def test_lines_are_appended_to_a_file(tmp_path):
    file = tmp_path / "requests.jsonl"
    for _ in range(2):
        log = RequestLog(file)
        log.put(a_record(status=200))
        log.close()

    lines = [json.loads(line) for line in file.read_text().splitlines()]

    assert [line["status"] for line in lines] == [200, 200]


def test_lines_go_to_stderr(capsys):
    log = RequestLog("-")
    log.put(a_record(status=404))
    log.close()

    assert json.loads(capsys.readouterr().err)["status"] == 404


def test_lines_that_cannot_be_written_in_time_are_counted_not_waited_for():
    written, entered, gate = [], threading.Event(), threading.Event()

    def slow(fields):
        entered.set()
        gate.wait()
        written.append(fields)

    log = RequestLog(slow, max_waiting=1)
    log.put(a_record())
    entered.wait()
    for _ in range(4):  # one waits, three are dropped
        log.put(a_record())
    gate.set()
    while len(written) < 2:
        entered.wait(0.001)
    log.put(a_record())
    log.close()

    assert [line.get("dropped") for line in written] == [None, None, 3]


def test_a_target_that_fails_does_not_end_the_log_and_is_told_of_once(caplog):
    """A full disk would say so, with a traceback, for every request."""
    written = []

    def fails_often(fields):
        written.append(fields)
        if len(written) not in (3, 6):
            raise OSError("disk full")

    log = RequestLog(fails_often)
    for _ in range(6):
        log.put(a_record())
    log.close()

    said = "lines of the request log cannot be written: disk full"
    assert len(written) == 6
    assert [record.getMessage() for record in caplog.records] == [said, said]
    assert "Traceback" not in caplog.text


def test_without_a_target_nothing_is_written():
    log = RequestLog(None)

    log.put(a_record())
    log.close()
    log.close()


def test_a_line_is_short_whatever_the_caller_called_the_model():
    """Otherwise a prompt, or megabytes of one, could get into the log."""
    record = CallRecord("/" + "p" * 10_000)
    record.model = "m" * 10_000

    assert len(json.dumps(line_of(record, now=datetime.now(UTC)))) < 1000
