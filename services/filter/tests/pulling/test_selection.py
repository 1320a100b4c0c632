"""What a group gets of an answer, for masks of every shape and filters that stop half way."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ariane.broker.v1.pull_service_pb2 import PullRecordsResponse, QueueRecords
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_filter.pulling.pieces import PIECE_BYTES_MAX, PIECE_RECORDS_MAX, pieces
from ariane_filter.pulling.selection import selected
from ariane_record.decoding.columns import decode_columns
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ServiceError

FAILED = ServiceError(
    ErrorReason.ERROR_REASON_FILTER_FAILED, "it failed", {"filter": "late@0", "cause": "it raised"}
)


class Judge:
    """A filter that wants the bodies in a set, and fails at some."""

    version = "late@0"

    def __init__(self, wanted, fails_at=()):
        self.wanted = wanted
        self.fails_at = set(fails_at)

    async def judge(self, records, sizes):
        bodies = decode_columns(records, sizes).bodies()
        if self.fails_at & set(bodies):
            raise FAILED
        return np.array([body in self.wanted for body in bodies], np.bool_)


def queue_of(topic, queue_id, bodies, first=100):
    """Records as a broker would answer them."""
    encoder = BlockEncoder(topic, size_bytes_max=64 << 20)
    for body in bodies:
        encoder.add(body, born_timestamp_ms=1)
    block = encoder.finish()
    records, sizes = bytearray(block.records), block.sizes.astype("<i4")
    start = 0
    for place, size in enumerate(sizes.tolist()):
        records[start + 20 : start + 28] = (first + place).to_bytes(8, "big")
        start += size
    return QueueRecords(
        topic=topic,
        queue_id=queue_id,
        next_queue_offset=first + len(bodies),
        min_queue_offset=1,
        max_queue_offset=first + len(bodies) + 7,
        record_sizes=sizes.tobytes(),
        records=bytes(records),
        log_epoch=3,
    )


async def test_no_group_is_sent_to_a_replica_which_has_no_filter():
    queue = queue_of("flights", 0, [b"a", b"b"])
    queue.replica.address, queue.replica.end_queue_offset = "10.0.0.9:10911", 90
    other = queue_of("other", 0, [b"a"])
    other.replica.address = "10.0.0.9:10911"
    answer = await selected(PullRecordsResponse(queues=[queue, other]), {"flights": Judge([b"a"])})
    assert [each.HasField("replica") for each in answer.queues] == [False, True]


def bodies_of(queue):
    sizes = np.frombuffer(queue.record_sizes, "<i4")
    assert sizes.sum() == len(queue.records)
    return decode_columns(queue.records, sizes).bodies()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.lists(st.tuples(st.binary(max_size=20), st.booleans()), max_size=12),
        min_size=1,
        max_size=4,
    )
)
async def test_every_queue_keeps_what_is_wanted_and_moves_behind_all(queues):
    numbered = [
        [(b"%d-%d-" % (place, row) + body, keep) for row, (body, keep) in enumerate(rows)]
        for place, rows in enumerate(queues)
    ]
    wanted = {body for rows in numbered for body, keep in rows if keep}
    answer = PullRecordsResponse(
        queues=[
            queue_of("flights", place, [body for body, _ in rows])
            for place, rows in enumerate(numbered)
        ]
    )
    found = await selected(answer, {"flights": Judge(wanted)})
    assert len(found.queues) == len(queues)
    for queue, rows in zip(found.queues, numbered, strict=True):
        assert bodies_of(queue) == [body for body, keep in rows if keep]
        assert queue.next_queue_offset == 100 + len(rows)
        assert (queue.min_queue_offset, queue.log_epoch) == (1, 3)


async def test_other_topics_and_errors_go_through_untouched():
    broken = QueueRecords(topic="flights", queue_id=9, next_queue_offset=5)
    broken.error.message = "cut"
    answer = PullRecordsResponse(queues=[queue_of("orders", 0, [b"x"]), broken])
    assert await selected(answer, {"flights": Judge(set())}) == answer


@pytest.mark.parametrize("failing", range(9))
async def test_a_filter_that_fails_stops_its_queue_and_loses_nothing(failing, monkeypatch):
    """Whatever is pulled again from where answers ended gives each wanted message once."""
    monkeypatch.setattr("ariane_filter.pulling.pieces.PIECE_RECORDS_MAX", 2)
    bodies = [b"%d" % number for number in range(9)]
    judge = Judge(set(bodies[::2]), fails_at=[bodies[failing]])
    position, found, errors = 100, [], 0
    while position < 109:
        rest = bodies[position - 100 :]
        queue = queue_of("flights", 0, rest, first=position)
        answer = await selected(PullRecordsResponse(queues=[queue]), {"flights": judge})
        (queue,) = answer.queues
        if queue.HasField("error"):
            assert queue.next_queue_offset == position
            assert not queue.records
            errors += 1
            judge.fails_at.clear()  # As if its worker had only been killed.
            continue
        found += bodies_of(queue)
        position = queue.next_queue_offset
    assert found == bodies[::2]
    assert errors == 1


async def test_queues_behind_one_that_fails_are_not_told_of_it(monkeypatch):
    monkeypatch.setattr("ariane_filter.pulling.pieces.PIECE_RECORDS_MAX", 2)
    answer = PullRecordsResponse(
        queues=[
            queue_of("flights", 0, [b"a", b"b"]),
            queue_of("flights", 1, [b"c", b"d"]),
            queue_of("flights", 2, [b"e"]),
        ]
    )
    found = await selected(answer, {"flights": Judge({b"a", b"e"}, fails_at=[b"c"])})
    first, second = found.queues
    assert (first.queue_id, bodies_of(first), first.next_queue_offset) == (0, [b"a"], 102)
    assert (second.queue_id, second.next_queue_offset) == (1, 100)
    assert "it failed" in second.error.message


async def test_a_filter_that_does_not_run_ends_the_pull():
    class Gone(Judge):
        async def judge(self, records, sizes):
            raise ServiceError(ErrorReason.ERROR_REASON_FILTER_QUARANTINED, "stopped")

    answer = PullRecordsResponse(queues=[queue_of("flights", 0, [b"x"])])
    with pytest.raises(ServiceError, match="stopped"):
        await selected(answer, {"flights": Gone(set())})


@given(st.lists(st.integers(1, 3 << 20), max_size=30))
def test_pieces_hold_everything_once_and_no_more_than_a_worker_can_take(sizes):
    sizes = np.array(sizes, np.int32)
    cut = list(pieces(sizes))
    assert [place for first, last in cut for place in range(first, last)] == list(range(len(sizes)))
    for first, last in cut:
        assert last - first == 1 or sizes[first:last].sum() <= PIECE_BYTES_MAX
    many = list(pieces(np.ones(10_000, np.int32)))
    assert [last - first for first, last in many] == [PIECE_RECORDS_MAX] * 2 + [10_000 - 8192]
