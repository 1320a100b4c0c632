"""Half messages that are stored side by side, and their records that are kept in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_broker.append.rows import Rows, RowTerms
from ariane_broker.errors.replication import too_few_in_sync
from ariane_broker.errors.store_errors import STORAGE_RULES
from ariane_broker.topics.topic_table import TopicConfig
from ariane_broker.transactions import halves, recent_halves
from ariane_broker.transactions.halves import HalfLimits, Halves
from ariane_broker.transactions.recent_halves import RecentHalves
from ariane_broker.transactions.transaction_records import HalfMessage
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_record.single.message import EMPTY_HOST
from ariane_record.single.record_copy import RecordCopy
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ErrorTranslator
from ariane_storage import Store
from ariane_storage.testing import FaultyDisk, FixedClock, small_config
from services.broker.tests.log_side import broker_log

HOSTS = [("10.1.2.3", 4711), ("2001:db8::7", 80), ("::ffff:10.0.0.1", 9)]
TOPICS = {
    topic: TopicConfig(topic=topic, read_queue_count=4, write_queue_count=4)
    for topic in ("orders", "bills")
}
TEXTS = st.text("ab9äß€𝄞", min_size=1, max_size=9)


class NotInSync:
    """Replicas of which too few are in sync after some appends."""

    def __init__(self, appends):
        self.left = appends

    def check(self):
        if not self.left:
            raise too_few_in_sync(1, 2)
        self.left -= 1

    def appended(self):
        pass


class Bench:
    def __init__(self, *, block_bytes_max=1 << 15, replicas=None, pending_count_max=100):
        self.store = Store.open(
            Path("/store"),
            small_config(segment_bytes=1 << 18),
            disk=FaultyDisk(),
            clock=FixedClock(),
        )
        self.table, self.recent = TransactionTable(decision_count_max=3), RecentHalves()
        log = broker_log(self.store, replicas=replicas)
        self.halves = Halves(
            log,
            self.table,
            TOPICS.get,
            HalfLimits(block_bytes_max, pending_count_max),
            recent=self.recent,
            is_draining=lambda: False,
            service_error=ErrorTranslator(STORAGE_RULES).service_error,
        )

    def send(self, *rows, host=HOSTS[0]):
        return self.halves.store_rows(Rows.joined(rows), host)


def row(unique_id, body=b"paid", queue_id=0, topic="orders", **fields):
    encoder = BlockEncoder(topic, size_bytes_max=1 << 17)
    encoder.add(body, unique_id=unique_id, born_timestamp_ms=7, **fields)
    return Rows.one(encoder.finish(), queue_id, terms=RowTerms(half_group="pay"))


@given(
    messages=st.lists(
        st.fixed_dictionaries(
            {
                "body": st.binary(max_size=300),
                "queue_id": st.integers(0, 3),
                "tag": st.just("") | TEXTS,
                "keys": st.lists(TEXTS, max_size=3),
                "properties": st.dictionaries(TEXTS.map("x-{}".format), TEXTS, max_size=3),
                "flag": st.integers(-(1 << 31), (1 << 31) - 1),
            }
        ),
        min_size=1,
        max_size=9,
    ),
    host=st.sampled_from(HOSTS),
    block_bytes_max=st.sampled_from([1500, 1 << 15]),
)
def test_what_is_kept_of_a_half_message_is_what_the_log_has(messages, host, block_bytes_max):
    bench = Bench(block_bytes_max=block_bytes_max)
    bench.send(*(row(f"t-{n}", **message) for n, message in enumerate(messages)), host=host)
    pending = bench.table.pending()
    assert len(pending) == len(messages)
    for half in pending:
        assert bench.recent.take(half) == bench.store.copy_at(half.commit_log_offset)
        assert bench.recent.take(half) is None


@pytest.mark.parametrize(
    ("block_bytes_max", "appends", "stored"),
    [(400, 0, 0), (400, 1, 1), (400, 2, 2), (1 << 15, 0, 0), (1 << 15, 1, 3)],
)
def test_each_half_message_that_replicas_prevent_is_refused(block_bytes_max, appends, stored):
    bench = Bench(block_bytes_max=block_bytes_max, replicas=NotInSync(appends))
    outcomes = bench.send(*(row(f"t-{number}") for number in range(3)))
    refused = [each.error.row.name for each in outcomes if each.error]
    assert refused == ["TOO_FEW_IN_SYNC"] * (3 - stored)
    assert bench.table.pending_count == stored
    assert sum(len(each.appended) for each in outcomes if not each.error) == stored


def test_half_messages_of_a_call_count_for_their_own_topics(monkeypatch):
    monkeypatch.setattr(halves, "OF_TOPIC_MIN", 1)
    bench = Bench(pending_count_max=8)
    # Six of eight may wait in one topic.
    first = [row(f"t-{number}", topic="bills") for number in range(3)]
    outcomes = bench.send(*first, *(row(f"u-{number}") for number in range(4)))
    assert not [each for each in outcomes if each.error]
    assert [bench.table.pending_count_of(topic) for topic in ("bills", "orders")] == [3, 4]
    bench = Bench(pending_count_max=8)
    *_, last = bench.send(*(row(f"t-{number}") for number in range(7)))
    assert str(last.error).startswith("6 half messages of topic 'orders' wait for an outcome")
    bench.send(*(row(f"t-{number}", topic="bills") for number in range(7, 9)))
    [last] = bench.send(row("t-9", topic="bills"))
    assert str(last.error).startswith("8 half messages wait for an outcome")


def half(unique_id, place):
    return HalfMessage(unique_id, "orders", 0, "pay", place, place, 0)


def test_few_records_are_kept_and_each_for_its_place(monkeypatch):
    # Room for two with bodies of four bytes.
    room_bytes = 2 * (recent_halves.RECORD_BYTES + 4)
    monkeypatch.setattr(recent_halves, "RECENT_BYTES_MAX", room_bytes)
    recent = RecentHalves()
    records = [RecordCopy(b"%d" % n * 4, 0, b"", 0, 0, 0, EMPTY_HOST, 0, 0) for n in range(4)]
    for place, record in enumerate(records[:3]):
        recent.keep(half(f"t-{place}", place), record)
    assert recent.take(half("t-0", 0)) is None
    assert recent.take(half("t-1", 7)) is None
    recent.keep(half("t-2", 8), records[3])
    assert recent.take(half("t-2", 8)) == records[3]
