"""Bundles wait in order, and none begins where single batches do better."""

import pytest

from ariane_record.encoding.plain_topic import PlainTopic
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.bundle import Bundle, BundleSettings
from ariane_sdk.producer.sending.staggered_calls import BATCHES_PER_CALL_MAX, TURNS, turn_size
from ariane_sdk.producer.sending.waiting_bundles import (
    BATCHES_LEFT_MIN,
    BATCHES_MIN,
    ROWS_AT_FIRST,
    ROWS_MIN,
    WaitingBundles,
)


def bundle_of(row_count, first_topic=0):
    ids = UniqueIdGenerator(lambda: 1, ip="10.1.2.3", pid=7, origin=0)
    bundle = Bundle(BundleSettings(ids, sequenced=True))
    for number in range(first_topic, first_topic + row_count):
        queue = MessageQueue(f"topic-{number}", "broker-a", 0)
        bundle.join(queue, PlainTopic(queue.topic, id_bytes=32), lambda _: queue)  # noqa: B023
    return bundle


def test_they_are_wanted_from_many_batches_on_and_until_there_are_few():
    bundles = WaitingBundles()
    steps = [
        (BATCHES_MIN - 1, True, False),
        (BATCHES_MIN, True, True),
        (BATCHES_LEFT_MIN, True, True),
        (BATCHES_LEFT_MIN - 1, True, False),
        (BATCHES_LEFT_MIN, True, False),
        (BATCHES_MIN, True, True),
        (BATCHES_MIN, False, False),
    ]
    for batch_count, tiny, wanted in steps:
        bundles.plan(batch_count, tiny=tiny)
        assert bundles.wanted is wanted


def test_another_begins_when_the_last_has_no_room():
    bundles = WaitingBundles()
    assert bundles.joinable(1000) is None
    bundles.add(bundle_of(ROWS_AT_FIRST - 1))
    assert bundles.joinable(bundles.first.size_bytes) is bundles.first
    assert bundles.joinable(bundles.first.size_bytes - 1) is None
    assert not bundles.is_first_full
    bundles.first.join(
        MessageQueue("late", "broker-a", 0), PlainTopic("late", id_bytes=32), lambda _: None
    )
    assert bundles.joinable(1 << 30) is None
    assert bundles.is_first_full


def test_the_first_leaves_first_or_waits_for_its_queues():
    bundles = WaitingBundles()
    first, second = bundle_of(20), bundle_of(20, first_topic=20)
    bundles.add(first)
    bundles.add(second)
    assert (len(bundles.line), bundles.row_count, bundles.count) == (2, 40, 0)
    assert bundles.take_first({MessageQueue("topic-19", "broker-a", 0)}, 0) is None
    assert bundles.take_first({MessageQueue("topic-20", "broker-a", 0)}, 0) is first
    assert bundles.take_first(set(), 0) is second
    assert len(bundles.line) == 0


@pytest.mark.parametrize(
    ("waiting", "by_themselves", "expected"),
    [(40, 0, ROWS_MIN), (400, 0, 100), (300, 300, 150)],
)
def test_a_bundle_takes_a_quarter_of_what_waits(waiting, by_themselves, expected):
    bundles = WaitingBundles()
    for _ in range(40):
        bundles.add(bundle_of(waiting))
        assert bundles.take_first(set(), by_themselves)
    bundles.add(bundle_of(expected - 1))
    last = bundles.first
    assert bundles.joinable(1 << 30) is last
    last.join(MessageQueue("late", "broker-a", 0), PlainTopic("late", id_bytes=32), lambda _: None)
    assert bundles.joinable(1 << 30) is None


def test_no_bundle_has_more_batches_than_a_call_takes():
    assert turn_size(TURNS * BATCHES_PER_CALL_MAX, 0) == BATCHES_PER_CALL_MAX
    assert turn_size(TURNS * BATCHES_PER_CALL_MAX + 1, 0) == BATCHES_PER_CALL_MAX
