"""From when, and for how long, a cached prefix of Messages can be read."""

from __future__ import annotations

import pytest

from tests.server_reference.scripted.providers.anthropic_prompts import PROMPT, SYSTEM, tokens
from tests.server_reference.scripted.providers.requests import Asking, marked, messages, text, user


@pytest.fixture
def asking():
    return Asking()


class TestTimeToLive:
    def test_five_minutes_are_counted_from_the_start_of_the_request(self, asking):
        reading = asking.read(messages("hi!!", system=SYSTEM))
        asking.clock.advance(240)  # a slow answer
        reading.begin()
        asking.clock.advance(59)
        almost = asking.read(messages("ho!!", system=SYSTEM)).cache_read

        assert almost == 1000

    def test_a_stream_of_four_minutes_leaves_one(self, asking):
        reading = asking.read(messages("hi!!", system=SYSTEM))
        asking.clock.advance(240)
        reading.begin()
        asking.clock.advance(60)

        assert asking.read(messages("ho!!", system=SYSTEM)).cache_read == 0

    @pytest.mark.parametrize(
        ("ttl", "minutes", "read"),
        [("5m", 6, 0), ("1h", 6, 1000), ("1h", 61, 0)],
        ids=["5m after 6", "1h after 6", "1h after 61"],
    )
    def test_a_prefix_is_gone_after_its_time(self, asking, ttl, minutes, read):
        asking.begin(messages("hi!!", system=[marked(PROMPT, ttl)]))
        asking.clock.advance(minutes * 60)

        assert asking.begin(messages("hi!!", system=[marked(PROMPT, ttl)])).cache_read == read

    def test_each_use_refreshes_it_for_nothing(self, asking):
        asking.begin(messages("hi!!", system=SYSTEM))
        for _ in range(3):
            asking.clock.advance(240)
            reading = asking.begin(messages("hi!!", system=SYSTEM))

        assert tokens(reading) == (1000, {}, 1)

    def test_a_mark_inside_of_what_is_read_is_refreshed_too(self, asking):
        request = messages(user(marked("hi!!")), system=SYSTEM)
        asking.begin(request)
        asking.clock.advance(240)
        asking.begin(request)
        asking.clock.advance(240)

        assert asking.begin(messages("other", system=SYSTEM)).cache_read == 1000

    def test_a_prefix_that_was_found_by_looking_back_is_refreshed(self, asking):
        asking.begin(messages(user(marked(PROMPT))))
        asking.clock.advance(240)
        asking.begin(messages(PROMPT, user(marked("more"))))
        asking.clock.advance(240)

        assert asking.begin(messages(PROMPT, user(marked("other")))).cache_read == 1000

    @pytest.mark.parametrize("turn", ["hi!!", marked("hi!!")], ids=["longest", "inside"])
    def test_reading_refreshes_even_when_the_reply_never_begins(self, asking, turn):
        request = messages(user(turn), system=SYSTEM)
        asking.begin(request)
        asking.clock.advance(240)
        asking.read(request)
        asking.clock.advance(240)

        assert asking.read(messages("other", system=SYSTEM)).cache_read == 1000

    def test_a_mark_inside_of_what_is_read_keeps_its_prefix_for_nothing(self, asking):
        asking.begin(messages(PROMPT, user(marked("hi!!"))))
        reading = asking.begin(messages(user(marked(PROMPT)), user(marked("hi!!"))))

        shorter = asking.begin(messages(user(marked(PROMPT)), "other"))

        assert tokens(reading) == (1001, {}, 0)
        assert shorter.cache_read == 1000

    def test_an_entry_keeps_the_lifetime_that_was_paid_for(self, asking):
        asking.begin(messages("hi!!", system=[marked(PROMPT, "5m")]))
        asking.begin(messages("hi!!", system=[marked(PROMPT, "1h")]))
        asking.clock.advance(360)

        assert asking.begin(messages("hi!!", system=[marked(PROMPT, "1h")])).cache_read == 0

    def test_what_is_written_is_split_by_time_to_live(self, asking):
        turn = user(marked(text(30)))

        reading = asking.begin(messages(turn, "hi!!", system=[marked(PROMPT, "1h")]))

        assert tokens(reading) == (0, {"1h": 1000, "5m": 30}, 1)

    @pytest.mark.parametrize("first", [None, "5m"], ids=["bare", "5m"])
    def test_a_mark_of_an_hour_after_one_of_five_minutes_is_refused(self, asking, first):
        request = messages(user(marked("hi", "1h")), system=[marked(PROMPT, first)])

        message = asking.refuse(request)

        assert message.startswith("messages.0.content.0.cache_control.ttl: a mark of 1h must")

    def test_the_top_level_mark_is_part_of_that_order(self, asking):
        hour = {"type": "ephemeral", "ttl": "1h"}

        message = asking.refuse(messages("hi", system=SYSTEM, cache_control=hour))

        assert "must stand before every mark of 5m" in message


class TestConcurrency:
    def test_a_prefix_can_be_read_once_the_reply_has_begun(self, asking):
        first = asking.read(messages("hi!!", system=SYSTEM))
        during = asking.read(messages("hi!!", system=SYSTEM)).cache_read
        first.begin()

        assert (during, asking.read(messages("hi!!", system=SYSTEM)).cache_read) == (0, 1000)

    def test_eight_cold_requests_at_once_all_pay_for_the_write(self, asking):
        readings = [asking.read(messages(f"q{i}", system=SYSTEM)) for i in range(8)]
        for reading in readings:
            reading.begin()

        assert [one.cache_write for one in readings] == [{"5m": 1000}] * 8

    def test_seven_that_wait_for_the_first_event_of_one_only_read(self, asking):
        asking.begin(messages("q0", system=SYSTEM))
        readings = [asking.read(messages(f"q{i}", system=SYSTEM)) for i in range(1, 8)]

        assert [one.cache_read for one in readings] == [1000] * 7

    def test_a_reply_that_never_begins_writes_nothing(self, asking):
        asking.read(messages("hi!!", system=SYSTEM))

        assert asking.read(messages("hi!!", system=SYSTEM)).cache_read == 0
