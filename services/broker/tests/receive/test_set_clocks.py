"""A clock that is set while a broker runs, or while none does."""

from ariane_broker import app
from pytest_ariane.forward_clock import ForwardClock
from services.broker.tests.receive.receive_calls import Receiver, bodies

DAY_S = 24 * 3600


class SettableClock(ForwardClock):
    """Can be set, besides."""

    set_s = 0

    def now_ms(self):
        return super().now_ms() + self.set_s * 1000


async def test_a_clock_that_is_set_shows_no_message_and_hides_none(monkeypatch, running):
    clock = SettableClock()
    monkeypatch.setattr(app, "SystemClock", lambda: clock)
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a"])
        one, other = Receiver(broker), Receiver(broker)
        await one.receive(invisible_s=30)
        clock.set_s = 15 * DAY_S
        assert await other.receive() == []
        assert await one.standing() == [(0, 1, 1, 0, 0)]
        clock.set_s = -DAY_S
        assert await other.receive() == []
        clock.advance(31)
        assert bodies(await other.receive()) == ["a"]


async def test_messages_hidden_by_a_clock_that_was_ahead_come_after_a_restart(monkeypatch, running):
    clock = SettableClock()
    clock.set_s = 15 * DAY_S
    monkeypatch.setattr(app, "SystemClock", lambda: clock)
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a"])
        await Receiver(broker).receive(invisible_s=30)
    monkeypatch.setattr(app, "SystemClock", SettableClock)
    async with running() as broker:
        assert bodies(await Receiver(broker).receive(hold_s=30)) == ["a"]
