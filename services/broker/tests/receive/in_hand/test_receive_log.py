"""What receipts are signed with: known to whoever takes over before the first of them leaves."""

import asyncio

import pytest

from ariane_broker.errors.public_errors import flush_unconfirmed
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.receive.in_hand.receive_events import decode_events
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_servicekit.errors import ServiceError


class Log:
    """Keeps what is written; it is promised when somebody says so."""

    def __init__(self):
        self.events, self.waits = [], 0
        self.promise = asyncio.Event()
        self.failure = None

    def append_own(self, _topic, body):
        self.events += decode_events(body)

    async def promised(self):
        self.waits += 1
        if self.failure is not None:
            raise self.failure
        await self.promise.wait()


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def table():
    return ReceiveTable(ConsumerOffsets(now_ms=lambda: 7), lambda: None)


def receive_log(log, table):
    return ReceiveLog(
        log,
        table,
        ConsumerOffsets(now_ms=lambda: 7),
        draw_bytes=lambda count: bytes([5]) * count,
    )


async def test_no_receipt_leaves_before_its_secret_is_promised(log, table):
    receiving = receive_log(log, table)
    both = [asyncio.create_task(receiving.secured()) for _ in range(2)]
    async with asyncio.timeout(60):
        while log.waits < 2:  # noqa: ASYNC110 - no event tells it.
            await asyncio.sleep(0)
        assert not any(each.done() for each in both)
        log.promise.set()
        await asyncio.gather(*both)
        await receiving.secured()
    assert [event.holder for event in log.events] == [table.secret]
    assert log.waits == 2


async def test_a_promise_that_failed_is_waited_for_again(log, table):
    receiving, log.failure = receive_log(log, table), flush_unconfirmed()
    for _ in range(2):
        with pytest.raises(ServiceError):
            await receiving.secured()
    log.failure = None
    log.promise.set()
    await receiving.secured()
    assert len(log.events) == 1


async def test_a_secret_that_was_read_from_the_log_is_good_at_once(log, table):
    await asyncio.wait_for(_secured(log, table), 60)
    restarted = receive_log(log, table)
    log.promise.clear()
    await asyncio.wait_for(restarted.secured(), 60)
    assert len(log.events) == 1


async def _secured(log, table):
    log.promise.set()
    await receive_log(log, table).secured()
