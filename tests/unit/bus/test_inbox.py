import pytest

from hanse.bus import inbox as inbox_module
from hanse.bus.contract import BusClosed, BusMessage
from hanse.bus.inbox import Inbox


async def test_the_newest_message_takes_the_place_of_its_topic() -> None:
    inbox = Inbox()
    for topic, payload in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        inbox.put(BusMessage(topic, payload))
    assert [await anext(inbox), await anext(inbox)] == [BusMessage("a", b"3"), BusMessage("b", b"2")]
    assert inbox.dropped == 1


async def test_too_many_topics_drop_the_one_that_waits_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "SUBSCRIPTION_TOPICS_MAX", 3)
    inbox = Inbox()
    for topic in "abcd":
        inbox.put(BusMessage(topic, b""))
    assert [(await anext(inbox)).topic for _ in range(3)] == ["b", "c", "d"]
    assert inbox.dropped == 1


async def test_an_end_with_a_cause_raises_again_and_again() -> None:
    inbox = Inbox()
    inbox.put(BusMessage("a", b""))
    inbox.end("taken over")
    inbox.end()
    inbox.put(BusMessage("a", b""))
    for _ in range(2):
        with pytest.raises(BusClosed, match="taken over"):
            await anext(inbox)
