"""What comes before a connection's protocol is known."""

from __future__ import annotations

import asyncio

from server_reference.scripted.clock import ManualClock
from server_reference.scripted.door import Door, Fronts
from server_reference.scripted.http1 import Http1
from server_reference.scripted.ops import Wait
from server_reference.scripted.rules import RuleBook, rules_of
from server_reference.scripted.service import ScriptedService

MIB = 2**20


class Reading(asyncio.Transport):
    """Says whether it is read, and by whom."""

    def __init__(self):
        super().__init__()
        self.is_reading_now = True
        self.protocol = None

    def pause_reading(self):
        self.is_reading_now = False

    def resume_reading(self):
        self.is_reading_now = True

    def set_protocol(self, protocol):
        self.protocol = protocol

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def write(self, data):
        pass

    def close(self):
        pass

    def is_closing(self):
        return False


def test_who_sends_much_during_a_greeting_is_read_after_it():
    """What a client sends before its turn must not fill the server's memory."""

    async def talk():
        clock = ManualClock()
        service = ScriptedService(RuleBook(rules_of("x")), clock=clock)
        transport = Reading()
        door = Door(service.opened(is_tls=False), service, Fronts(Http1), greeting=[Wait(1)])
        door.connection_made(transport)
        await asyncio.sleep(0)
        seen = []
        for _ in range(2):
            door.data_received(b"a" * MIB)
            seen.append(transport.is_reading_now)
        clock.advance(1)
        for _ in range(5):
            await asyncio.sleep(0)
        return seen, transport

    seen, transport = asyncio.run(talk())

    assert seen == [True, False]
    assert transport.is_reading_now
    assert isinstance(transport.protocol, Http1)
