"""Queues that stand still are told of."""

from dataclasses import dataclass

from ariane_sdk import MessageQueue
from ariane_sdk.client.hold import FAILED_IN_ORDER, Hold
from ariane_sdk.consumer.delivery.standstill import StandstillWatch

QUEUE = MessageQueue("orders", "broker-a", 0)


@dataclass
class Queue:
    """What the watch looks at."""

    queue: MessageQueue = QUEUE
    done_offset: int = 7
    delivered_s: float | None = 1.0
    in_flight_count: int = 2
    waiting_count: int = 30
    paused: bool = False
    hold: Hold | None = None


def told_at(caplog, owned, times, change=lambda _now_s: None):
    """The times of looks at which something is told."""
    watch, told = StandstillWatch("billing"), []
    for now_s in times:
        change(now_s)
        before = len(caplog.messages)
        watch.look([owned], now_s)
        told += [now_s for _ in caplog.messages[before:]]
    return told


def test_a_queue_without_progress_is_told_of_and_again_after_twice_the_time(caplog):
    assert told_at(caplog, Queue(), range(0, 500, 10)) == [60, 120, 240, 480]
    assert "orders" in caplog.messages[-1]
    assert "no progress for 480 s" in caplog.messages[-1]
    assert "has 2 messages and 30 more wait for it" in caplog.messages[-1]


def test_a_queue_that_waits_in_order_says_for_what(caplog):
    hold = Hold(reason=FAILED_IN_ORDER, since_s=0, queue_offset=7, attempts=59, cause="no bank")
    assert told_at(caplog, Queue(hold=hold), range(0, 500, 10)) == [60, 120, 240, 480]
    assert "message 7, which has failed 59 times" in caplog.messages[-1]
    assert "ariane group retry billing --ordered-attempts" in caplog.messages[-1]
    assert caplog.messages[-1].endswith("no bank")


def test_a_queue_that_moves_or_has_nothing_to_do_or_is_paused_is_not_told_of(caplog):
    moving, taking = Queue(), Queue()

    def move(now_s):
        moving.done_offset = now_s // 30

    def take(now_s):
        taking.delivered_s = now_s // 30

    assert told_at(caplog, moving, range(0, 500, 10), move) == []
    assert told_at(caplog, taking, range(0, 500, 10), take) == []
    idle = Queue(in_flight_count=0, waiting_count=0)
    for still in (idle, Queue(paused=True)):
        assert told_at(caplog, still, range(0, 500, 10)) == []


def test_a_queue_that_has_moved_once_is_watched_from_then_on(caplog):
    owned = Queue()

    def move(now_s):
        owned.done_offset = 8 if now_s >= 100 else 7

    assert told_at(caplog, owned, range(0, 200, 10), move) == [60, 160]
