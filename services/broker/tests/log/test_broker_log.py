"""Whoever appends, the same are told."""

from pathlib import Path

import pytest

from ariane_broker.log.derived.producer_sequences import ProducerSequences
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.queue_key import QueueKey
from ariane_record import ProducerSequence
from ariane_record.names import HALF_TOPIC
from ariane_storage import Store
from ariane_storage.errors import StoreFull
from ariane_storage.testing import FaultyDisk, FixedClock, block_of, small_config
from services.broker.tests.log_side import Grown, broker_log


class Arrived:
    def __init__(self):
        self.told = []

    def appended(self, queues, next_commit_log_offsets, _tag_codes=None, _counts=()):
        self.told += zip(queues, next_commit_log_offsets, strict=True)


@pytest.fixture
def store():
    with Store.open(Path("/s"), small_config(), disk=FaultyDisk(), clock=FixedClock()) as store:
        yield store


@pytest.fixture
def told():
    class Told:
        arrivals, keeping, statistics = Arrived(), Grown(), BrokerStatistics()
        sequences = ProducerSequences(now_ms=lambda: 0, expiry_ms=1000, stream_count_max=10)

    return Told


def test_all_whom_an_append_concerns_are_told_in_its_turn(store, told):
    log = broker_log(store, **{name: getattr(told, name) for name in vars(told) if name[0] != "_"})
    heard = []
    log.listen(HALF_TOPIC, lambda *said: heard.append(said))
    stream = QueueKey("orders", 1), ProducerSequence(7, 0, 0)
    streams = told.sequences.find_next([stream[0]], [stream[1]])
    first = log.append_rows(block_of("orders", [b"a", b"b"]), [stream[0]], ("10.0.0.1", 4), streams)
    half = block_of(HALF_TOPIC, [b"c"])
    second = log.append(half)
    ends = [first.next_commit_log_offset, second.next_commit_log_offset]
    assert told.arrivals.told == list(
        zip([QueueKey("orders", 1), QueueKey(HALF_TOPIC, 0)], ends, strict=True)
    )
    assert told.keeping.ends == ends
    assert (told.statistics.stored_batch_count, told.statistics.stored_message_count) == (2, 3)
    assert told.sequences.duplicate_of(*stream, 2, lambda batch: True) is not None
    assert heard == [(half, 0, second)]


def test_of_what_is_not_stored_nobody_is_told(told):
    class Full:
        def append(self, *block, **fields):
            raise StoreFull(Path("s"), "no room")

    log = broker_log(Full(), **{name: getattr(told, name) for name in vars(told) if name[0] != "_"})
    queues = [QueueKey("orders", 1)]
    streams = told.sequences.find_next(queues, [ProducerSequence(7, 0, 0)])
    with pytest.raises(StoreFull):
        log.append_rows(block_of("orders", [b"a"]), queues, ("10.0.0.1", 4), streams)
    assert told.arrivals.told == told.keeping.ends == []
    assert told.keeping.refusals == ["no room"]
    assert (told.statistics.stored_batch_count, len(told.sequences)) == (0, 0)
