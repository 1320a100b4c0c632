"""What functions of the application raise, whatever it is, has a text that can be sent."""

import asyncio
import logging

import pytest

from ariane_sdk.consumer.group.queue_notices import QueueNotices
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.application_calls import as_failure, text_of
from ariane_sdk.settings import PushSettings


class MuteError(Exception):
    """Has no text."""

    __str__ = __repr__ = None


class OddError(BaseException):
    """Is no ``Exception``."""


@pytest.mark.parametrize("to_text", [str, repr])
def test_any_error_has_a_text_that_can_be_sent(to_text):
    assert text_of(ValueError("x"), to_text) == to_text(ValueError("x"))
    assert text_of(MuteError(), to_text) == "MuteError without a text: TypeError"
    assert text_of(ValueError("a\ud800"), str) == "a\\ud800"
    text_of(ValueError("\ud800"), to_text).encode()
    assert "MuteError" in str(as_failure(MuteError()))


@pytest.mark.parametrize("on_loop", [False, True])
@pytest.mark.parametrize(
    "error", [StopIteration, asyncio.CancelledError, OddError, MuteError, TimeoutError]
)
async def test_queues_move_whatever_a_notice_raises(error, on_loop, caplog):
    def plain(_queues):
        raise error

    async def coroutine(_queues):
        raise error

    # Spark's, which other tests leave behind, asks the error for its text.
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logging.Formatter())
    settings = PushSettings(on_gained=coroutine if on_loop else plain, release_timeout_s=60)
    async with asyncio.timeout(30):
        await QueueNotices(settings).gained([MessageQueue("orders", "broker-a", 0)])
    assert "on_gained" in caplog.text


@pytest.mark.parametrize(("locked", "to_other"), [(False, True), (True, True), (False, False)])
async def test_a_notice_that_outlasts_the_handover_is_told(locked, to_other, caplog):
    async def slow(_queues):
        await asyncio.sleep(0.01)

    notices = QueueNotices(PushSettings(on_lost=slow, handover_s=0.005), locked=locked)
    await notices.lost([MessageQueue("orders", "broker-a", 0)], to_other=to_other)
    is_told = "orders@broker-a#0, whose next owner begins after handover_s, 0.005 s" in caplog.text
    assert is_told is (to_other and not locked)


async def test_a_notice_that_waits_ends_with_who_told_it():
    began = asyncio.Event()

    async def waits(_queues):
        began.set()
        await asyncio.Event().wait()

    notices = QueueNotices(PushSettings(on_lost=waits))
    telling = asyncio.create_task(notices.lost([MessageQueue("orders", "broker-a", 0)]))
    await began.wait()
    telling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await telling
