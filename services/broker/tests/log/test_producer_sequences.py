"""What idempotent producers have stored: every message once, in order, whatever is repeated."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ariane_broker.log.derived.producer_sequences import ProducerSequences
from ariane_broker.log.derived.producer_stream import BATCHES_KEPT, StoredBatch
from ariane_broker.queue_key import QueueKey
from ariane_record import ProducerSequence
from ariane_servicekit import ServiceError, at_once
from ariane_servicekit.running import turns
from ariane_storage.log.sequenced_batches import SequencedBatch
from ariane_storage.writing.append import Appended

QUEUE = QueueKey("orders", 2)
RECORD_BYTES = 100


class Broker:
    """A log, and what is known of it in memory."""

    def __init__(self, *, expiry_ms=1000, stream_count_max=100):
        self.now_ms = 10_000
        self.deleted_ends = {}
        self.user = ""
        self.limits = {
            "expiry_ms": expiry_ms,
            "stream_count_max": stream_count_max,
            "deleted_end": lambda topic: self.deleted_ends.get(topic, 0),
            "user": lambda: self.user,
        }
        self.log: list[SequencedBatch] = []
        self.end = 0
        self.sequences = self.new_sequences()
        self.snapshot = self.sequences.snapshot(0)

    def new_sequences(self):
        return ProducerSequences(now_ms=lambda: self.now_ms, **self.limits)

    def append(self, sequence, count, queue=QUEUE):
        """The stored batch and whether it is a duplicate, or the reason of the refusal."""
        size = count * RECORD_BYTES
        try:
            known = self.sequences.duplicate_of(
                queue, sequence, count, lambda stored: stored.size_bytes == size
            )
        except ServiceError as error:
            return error.row.name
        if known is not None:
            return known, True
        batch = StoredBatch(
            sequence.first_sequence, count, 0, self.end, self.end + size, self.now_ms
        )
        self.sequences.remember(queue, sequence, batch)
        self.log.append(
            SequencedBatch(*queue, sequence, count, 0, self.end, self.end + size, self.now_ms)
        )
        self.end += size
        return batch, False

    def save(self):
        self.snapshot = self.sequences.snapshot(self.end)

    def crash(self):
        self.sequences = self.new_sequences()
        begin = self.sequences.load(self.snapshot())
        for batch in self.log:
            if batch.commit_log_offset >= begin:
                self.sequences.restore(batch)


def at(first, *, epoch=0, producer_id=7):
    return ProducerSequence(producer_id, epoch, first)


def test_a_repeat_gets_the_first_result():
    broker = Broker()
    first, _ = broker.append(at(0), 3)
    second, _ = broker.append(at(3), 1)
    assert broker.append(at(0), 3) == (first, True)
    assert broker.append(at(3), 1) == (second, True)
    assert broker.append(at(4), 1)[1] is False
    assert broker.append(at(0, producer_id=8), 3)[1] is False
    assert broker.append(at(0), 3, QueueKey("orders", 3))[1] is False


def test_gaps_and_overlaps_are_refused():
    broker = Broker()
    assert broker.append(at(1), 1) == "SEQUENCE_GAP"
    broker.append(at(0), 3)
    assert broker.append(at(4), 1) == "SEQUENCE_GAP"
    for first, count in [(0, 2), (0, 4), (1, 1), (2, 5)]:
        assert broker.append(at(first), count) == "SEQUENCE_PASSED"
    with pytest.raises(ServiceError, match="too long ago"):
        broker.sequences.duplicate_of(QUEUE, at(0), 3, lambda stored: False)


def test_results_are_kept_of_the_last_batches_only():
    broker = Broker()
    for number in range(BATCHES_KEPT + 1):
        broker.append(at(number), 1)
    assert broker.append(at(0), 1) == "SEQUENCE_PASSED"
    assert broker.append(at(1), 1)[1] is True


def test_a_newer_epoch_fences_the_one_before():
    broker = Broker()
    broker.append(at(0), 3)
    assert broker.append(at(3, epoch=1), 1) == "SEQUENCE_GAP"
    assert broker.append(at(0, epoch=1), 1)[1] is False
    assert broker.append(at(0), 3) == broker.append(at(3), 1) == "PRODUCER_FENCED"


def test_streams_expire_and_their_number_is_bounded():
    broker = Broker(expiry_ms=1000, stream_count_max=3)
    broker.append(at(0), 1)
    broker.now_ms += 1000
    assert broker.append(at(0), 1)[1] is True
    broker.now_ms += 1
    assert broker.append(at(1), 1) == "SEQUENCE_GAP"
    for producer_id in range(1, 6):
        broker.append(at(0, producer_id=producer_id), 1)
    assert len(broker.sequences) == 3
    assert broker.append(at(1, producer_id=2), 1) == "SEQUENCE_GAP"
    assert broker.append(at(1, producer_id=3), 1)[1] is False
    broker.now_ms += 5000
    at_once(broker.sequences.forget_expired())
    assert broker.sequences.snapshot(0)()["streams"] == []


def test_of_a_stream_that_is_not_known_it_is_said_since_when_it_has_stored_nothing():
    broker = Broker(expiry_ms=1000, stream_count_max=2)

    def known_for_ms():
        with pytest.raises(ServiceError) as gap:
            broker.sequences.duplicate_of(QUEUE, at(1, producer_id=99), 1, lambda stored: True)
        return int(gap.value.metadata["known_for_ms"])

    assert known_for_ms() == 1000
    for producer_id in range(1, 4):
        broker.now_ms += 10
        broker.append(at(0, producer_id=producer_id), 1)
    # The first one was crowded out; it has stored something 20 ms ago.
    assert known_for_ms() == 19
    broker.save()
    broker.sequences = broker.new_sequences()
    broker.sequences.load(broker.snapshot())
    assert known_for_ms() == 19
    broker.now_ms += 5000
    assert known_for_ms() == 1000


def test_a_user_with_ever_new_producers_crowds_out_his_own_streams_only():
    broker = Broker(stream_count_max=20)
    broker.user = "anna"
    for producer_id in range(8):
        broker.append(at(0, producer_id=producer_id), 1)
    broker.user = "mallory"
    for producer_id in range(100, 400):
        broker.now_ms += 1
        broker.append(at(0, producer_id=producer_id), 1)
    assert 17 < len(broker.sequences) <= 20
    assert broker.append(at(1, producer_id=100), 1) == "SEQUENCE_GAP"
    assert broker.append(at(1, producer_id=399), 1)[1] is False
    broker.save()
    broker.crash()
    broker.user = "anna"
    for producer_id in range(8):
        assert broker.append(at(1, producer_id=producer_id), 1)[1] is False


def test_what_was_crowded_out_is_not_told_as_never_stored_whoever_asks():
    """The user of a producer may change, as where a cluster begins to ask for names."""
    broker = Broker(stream_count_max=20)
    broker.user = "mallory"
    for producer_id in range(100, 400):
        broker.now_ms += 1
        broker.append(at(0, producer_id=producer_id), 1)
    broker.save()
    broker.crash()
    broker.user = "anna"
    known_for_ms = {}
    for topic in ("orders", "bills"):
        with pytest.raises(ServiceError) as gap:
            broker.sequences.duplicate_of(
                QueueKey(topic, 2), at(1, producer_id=100), 1, lambda stored: True
            )
        known_for_ms[topic] = int(gap.value.metadata["known_for_ms"])
    assert known_for_ms["orders"] < 20
    assert known_for_ms["bills"] == 1000


def test_streams_of_which_only_the_log_is_known_count_for_their_topics_until_they_are_used():
    broker = Broker(stream_count_max=20)
    bills = QueueKey("bills", 0)
    for producer_id in range(3):
        broker.append(at(0, producer_id=producer_id), 1, bills)
    for producer_id in range(100, 200):
        broker.append(at(0, producer_id=producer_id), 1)
    broker.crash()
    assert broker.append(at(1, producer_id=0), 1, bills)[1] is False
    broker.user = "anna"
    assert broker.append(at(1, producer_id=1), 1, bills)[1] is False
    broker.user = "mallory"
    for producer_id in range(200, 300):
        broker.append(at(0, producer_id=producer_id), 1)
    assert broker.append(at(2, producer_id=1), 1, bills)[1] is False
    assert broker.append(at(1, producer_id=2), 1, bills)[1] is False
    assert 17 < len(broker.sequences) <= 20


def test_a_deleted_topic_is_forgotten():
    broker = Broker()
    broker.append(at(0), 1)
    before = broker.sequences.change_count
    turns.at_once(broker.sequences.forget_topics({"bills"}))
    assert broker.sequences.change_count == before
    turns.at_once(broker.sequences.forget_topics({"orders"}))
    assert broker.append(at(1), 1) == "SEQUENCE_GAP"
    broker.append(at(0, epoch=1), 1)
    broker.crash()
    assert broker.append(at(0, epoch=1), 1)[1] is True
    broker.sequences.keep_topics(lambda topic: topic != "orders")
    assert len(broker.sequences) == 0


def test_of_what_went_with_a_deleted_topic_it_is_not_said_that_it_was_never_stored():
    broker = Broker(expiry_ms=1000)

    def known_for_ms(topic, first):
        with pytest.raises(ServiceError) as gap:
            broker.sequences.duplicate_of(QueueKey(topic, 2), at(first), 1, lambda stored: True)
        return int(gap.value.metadata["known_for_ms"])

    for topic in ("orders", "bills"):
        for first in range(3):
            broker.append(at(first), 1, QueueKey(topic, 2))
    broker.deleted_ends["orders"] = broker.end
    turns.at_once(broker.sequences.forget_topics({"orders"}))
    assert known_for_ms("orders", 2) == 0
    # A repeat of the first batch begins the stream again; the last one is no less stored for that.
    broker.append(at(0), 1)
    assert known_for_ms("orders", 2) == 0
    assert known_for_ms("bills", 4) == known_for_ms("tickets", 4) == 1000


def test_streams_of_a_deleted_topic_do_not_come_back_from_the_log_for_one_of_its_name():
    broker = Broker()
    for producer_id in (7, 8):
        broker.append(at(0, producer_id=producer_id), 1)
    broker.deleted_ends["orders"] = broker.end
    turns.at_once(broker.sequences.forget_topics({"orders"}))
    broker.append(at(0, epoch=1), 1)
    # The snapshot is older than the deletion: a replica has not got the next one yet.
    broker.crash()
    assert broker.append(at(0, epoch=1), 1)[1] is True
    assert broker.append(at(0, producer_id=8), 1)[1] is False


@pytest.mark.parametrize("change", [{"version": 2}, {"streams": [[1, "t", 0, 0, [], ""]]}])
def test_other_documents_are_refused(change):
    broker = Broker()
    with pytest.raises(ValueError, match=r"version|batches"):
        broker.sequences.load(broker.sequences.snapshot(0)() | change)


USUALLY_0 = st.sampled_from([0] * 12 + [1, -1])
batches = st.tuples(
    st.builds(QueueKey, st.sampled_from(["a", "b"]), st.integers(0, 1)),
    st.none() | st.tuples(st.sampled_from([7, 7, 7, 8]), USUALLY_0, USUALLY_0),
    st.integers(1, 2),
)


@given(
    st.lists(
        st.tuples(st.lists(batches, min_size=1, max_size=3), st.sampled_from([0, 0, 300, 1001])),
        min_size=5,
        max_size=20,
    )
)
@settings(max_examples=100)
def test_what_is_remembered_at_once_is_remembered_as_one_by_one(requests):
    at_once, one_by_one = Broker(), Broker()
    next_sequences = Counter()
    for request, passed_ms in requests:
        at_once.now_ms = one_by_one.now_ms = at_once.now_ms + passed_ms
        queues, wanted, counts = map(list, zip(*request, strict=True))
        said = [
            one
            and at(max(0, next_sequences[queue, one[0]] + one[2]), epoch=one[1], producer_id=one[0])
            for queue, one in zip(queues, wanted, strict=True)
        ]
        found = at_once.sequences.find_next(queues, said)
        changes = at_once.sequences.change_count
        if found is None:
            continue
        sizes = [count * RECORD_BYTES for count in counts]
        ends = [one_by_one.end + size for size in accumulate(sizes)]
        edges = [ends[0] - sizes[0], *ends]
        places = Appended([0] * len(counts), counts, edges, at_once.now_ms, ())
        at_once.sequences.remember_all(found, places)
        for queue, sequence, count in zip(queues, said, counts, strict=True):
            if sequence is None:
                one_by_one.end += count * RECORD_BYTES
                continue
            _, was_stored_before = one_by_one.append(sequence, count, queue)
            assert not was_stored_before
            next_sequences[queue, sequence.producer_id] = sequence.first_sequence + count
        assert (at_once.sequences.change_count > changes) == any(said)
        left = [list(side.sequences._streams.items()) for side in (at_once, one_by_one)]
        assert left[0] == left[1]


@dataclass
class Client:
    """A producer for one queue, as the SDK does it: one batch at a time, repeated until known."""

    sequence: ProducerSequence
    pending: tuple[ProducerSequence, list[int]] | None = None
    copies: list[tuple[ProducerSequence, list[int]]] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    next_message: int = 0


class Deliveries(RuleBasedStateMachine):
    """Requests are repeated and late, answers are lost, the broker crashes, time passes."""

    def __init__(self):
        super().__init__()
        self.broker = Broker(expiry_ms=1000)
        self.client = Client(at(0))
        self.stored: list[int] = []

    def deliver(self, copy):
        sequence, messages = copy
        outcome = self.broker.append(sequence, len(messages))
        if isinstance(outcome, tuple) and not outcome[1]:
            self.stored += messages
        return outcome

    @precondition(lambda self: self.client.pending is None)
    @rule(count=st.integers(1, 3))
    def begin(self, count):
        client = self.client
        messages = list(range(client.next_message, client.next_message + count))
        client.next_message += count
        client.pending = (client.sequence, messages)

    @precondition(lambda self: self.client.pending is not None)
    @rule(answered=st.booleans(), lost=st.booleans())
    def send(self, answered, lost):
        client = self.client
        if lost:
            client.copies.append(client.pending)  # It arrives some time, or never.
            return
        outcome = self.deliver(client.pending)
        if not answered:
            client.copies.append(client.pending)
            return
        sequence, messages = client.pending
        if outcome == "SEQUENCE_GAP":
            # The stream expired: it begins anew.
            client.sequence = ProducerSequence(sequence.producer_id, sequence.epoch + 1, 0)
            if client.copies:
                client.unknown.update(messages)
                client.pending = None
            else:
                client.pending = (client.sequence, messages)
            return
        assert isinstance(outcome, tuple), outcome
        client.acknowledged += messages
        client.sequence = sequence._replace(first_sequence=sequence.first_sequence + len(messages))
        client.pending = None
        client.copies.clear()

    @precondition(lambda self: self.client.copies and self.client.pending is not None)
    @rule(draw=st.data())
    def late_copy_arrives(self, draw):
        self.deliver(draw.draw(st.sampled_from(self.client.copies)))

    @precondition(lambda self: self.client.copies and self.client.pending is not None)
    @rule()
    def give_up(self):
        client = self.client
        sequence, messages = client.pending
        client.unknown.update(messages)
        client.sequence = ProducerSequence(sequence.producer_id, sequence.epoch + 1, 0)
        client.pending = None
        client.copies.clear()

    @precondition(lambda self: self.client.pending is None)
    @rule(milliseconds=st.sampled_from([10, 1001]))
    def time_passes(self, milliseconds):
        self.broker.now_ms += milliseconds

    @rule()
    def save(self):
        self.broker.save()

    @rule()
    def crash(self):
        self.broker.crash()

    @invariant()
    def each_message_once_and_in_order(self):
        assert self.stored == sorted(set(self.stored))
        assert set(self.client.acknowledged) <= set(self.stored)
        pending = set(self.client.pending[1]) if self.client.pending else set()
        assert set(self.stored) <= set(self.client.acknowledged) | self.client.unknown | pending


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(max_examples=60, stateful_step_count=40)
