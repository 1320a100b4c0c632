r"""Stored batches of idempotent producers: one stream for each producer and queue.

::

    producer 7, orders#2, epoch 0      numbers of messages ------------------------------->
        forgotten  | 120..129 | 130..130 | 131..160 |  next: 161
                     \_ the last batches, each with its first result _/

A new batch must continue after the last one. A batch that equals one of the last ones is answered
with its first result. All others are refused: a gap, an older epoch, sequence numbers of other
batches.

A stream without use for a while is forgotten. If there are too many, those who have more than
their share lose the ones that were unused for longest, so that no user crowds out another. The
producer of a forgotten stream begins anew with a larger epoch, at the price of one refused batch.

All of this is rebuilt from the log (``log_states``), which does not say whose a stream is: until it
is used again, one that was found there counts for its topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, starmap
from operator import itemgetter
from typing import Any, Final, NamedTuple

from ariane_broker.errors.public_errors import producer_fenced, sequence_gap, sequence_passed
from ariane_broker.log.derived.producer_stream import (
    BATCHES_KEPT,
    StoredBatch,
    Stream,
    StreamKey,
    owner_of,
)
from ariane_broker.log.derived.snapshots import Document, SnapshotState
from ariane_broker.queue_key import QueueKey
from ariane_record import ProducerSequence
from ariane_servicekit.security.limits.fair_room import outgoing
from ariane_storage.log.scan import Stretch
from ariane_storage.log.sequenced_batches import SequencedBatch, sequenced_batches
from ariane_storage.writing.append import Appended

_stored_batch: Final[Callable[[tuple[int, ...]], StoredBatch]] = partial(tuple.__new__, StoredBatch)
_stream: Final[Callable[[tuple[int, tuple[StoredBatch, ...], str | None]], Stream]] = partial(
    tuple.__new__, Stream
)
_first_of: Final[Callable[[ProducerSequence], int]] = itemgetter(2)


class NextBatches(NamedTuple):
    """Batches that each continue a stream, side by side; valid until any stream changes."""

    of_each: Sequence[ProducerSequence | None]
    """The sequence of each batch or None; the other columns have only those with one."""
    sequences: list[ProducerSequence]
    """The sequence of each."""
    keys: list[StreamKey]
    """The stream of each."""
    streams: list[Stream]
    """The stream's present state; None for a new one."""


class ProducerSequences(SnapshotState):
    """The streams of all producers."""

    name: Final = "producer sequences"
    """Name of this state in the process's log."""

    def __init__(
        self,
        *,
        now_ms: Callable[[], int],
        expiry_ms: int,
        stream_count_max: int,
        deleted_end: Callable[[str], int] = lambda _: 0,
        user: Callable[[], str] = lambda: "",
    ) -> None:
        """Know of no producer.

        ``now_ms`` is the clock that stamps records. A stream is remembered for ``expiry_ms`` after
        its last batch. Batches for a topic below the commit-log offset ``deleted_end`` went with an
        earlier topic of its name; 0 if there was none. ``user`` returns who makes the present
        call; empty if nobody is known, or outside of calls.
        """
        self._now_ms = now_ms
        self._deleted_end = deleted_end
        self._user = user
        self._expiry_ms = expiry_ms
        self._stream_count_max = stream_count_max
        # The one unused for longest first.
        self._streams: dict[StreamKey, Stream] = {}
        # The last use of those that had to go for want of room, by their topics.
        self._crowded_out_ms: dict[str, int] = {}
        self.change_count = 0
        """Grows with every change."""

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def matters_since_ms(self) -> int:
        """Batches stored before this time do not matter any more."""
        return self._now_ms() - self._expiry_ms

    def duplicate_of(
        self,
        queue: QueueKey,
        sequence: ProducerSequence,
        record_count: int,
        is_same: Callable[[StoredBatch], bool],
    ) -> StoredBatch | None:
        """The batch as it is stored already, or None when it is the next one of its stream.

        Args:
            queue: The batch's queue.
            sequence: The batch's sequence.
            record_count: Number of records.
            is_same: Whether a stored batch with the same numbers equals this one.

        Raises:
            ServiceError: SEQUENCE_GAP, SEQUENCE_PASSED or PRODUCER_FENCED.
        """
        epoch, first = sequence.epoch, sequence.first_sequence
        stream = self._live_stream((sequence.producer_id, *queue))
        if stream is None or epoch > stream.epoch:
            if first:
                raise sequence_gap(*queue, 0, first, self._known_ms(queue.topic))
            return None
        if epoch < stream.epoch:
            raise producer_fenced(*queue, stream.epoch)
        expected = stream.batches[-1].next_sequence
        if first == expected:
            return None
        if first > expected:
            raise sequence_gap(*queue, expected, first, self._known_ms_max(queue.topic))
        for batch in stream.batches:
            same_numbers = batch.first_sequence == first and batch.record_count == record_count
            if same_numbers and is_same(batch):
                return batch
        raise sequence_passed(*queue, expected, first, record_count)

    def find_next(
        self, queues: Sequence[QueueKey], sequences: Sequence[ProducerSequence | None]
    ) -> NextBatches | None:
        """Check that each batch continues its stream or has no sequence; None if one does not.

        One that does not is for ``duplicate_of`` to decide.
        """
        chosen: list[ProducerSequence] = []
        keys: list[StreamKey] = []
        streams: list[Stream] = []
        since_ms = self.matters_since_ms
        for queue, sequence in zip(queues, sequences, strict=True):
            if sequence is None:
                continue
            producer_id, epoch, first = sequence
            key = producer_id, *queue
            stream = self._streams.get(key)
            is_next = False
            if stream is not None:
                last_epoch, batches, _ = stream
                last_first, count, _, _, _, stamp = batches[-1]
                if stamp >= since_ms:
                    is_next = epoch == last_epoch and first == last_first + count
                    if epoch <= last_epoch and not is_next:
                        return None
            if stream is None or not is_next:
                if first:
                    return None
                stream = Stream(epoch, ())
            chosen.append(sequence)
            keys.append(key)
            streams.append(stream)
        if len(keys) > 1 and len(set(keys)) < len(keys):
            return None
        return NextBatches(sequences, chosen, keys, streams)

    def remember(
        self,
        queue: QueueKey,
        sequence: ProducerSequence,
        batch: StoredBatch,
        *,
        by_caller: bool = True,
    ) -> None:
        """Note a stored batch that ``duplicate_of`` has let pass.

        Args:
            queue: The batch's queue.
            sequence: The batch's sequence.
            batch: The batch.
            by_caller: Whether the present call has brought it; else it is not known who did.
        """
        key = (sequence.producer_id, *queue)
        stream = self._streams.get(key)
        if stream is None or stream.epoch != sequence.epoch:
            stream = Stream(sequence.epoch, ())
        self._note((key,), (stream,), (batch,), by_caller=by_caller)

    def remember_all(self, batches: NextBatches, appended: Appended) -> None:
        """Note batches that ``find_next`` has let pass, where they were stored.

        The records of a batch may be stored in another queue than that of its stream.
        """
        if not batches.keys:
            return
        edges, count = appended.edges, len(appended.counts)
        if count == 1:  # A lone row, for less than columns cost.
            (first,), (record_count,) = appended.first_queue_offsets, appended.counts
            stamp = appended.store_timestamp_ms
            batch = batches.sequences[0][2], record_count, first, *edges, stamp
            self._note(batches.keys, batches.streams, (_stored_batch(batch),))
            return
        stamps: Sequence[int] = [appended.store_timestamp_ms] * count
        columns: Sequence[Sequence[int]] = (
            appended.counts,
            appended.first_queue_offsets,
            edges[:-1],
            edges[1:],
            stamps,
        )
        if len(batches.keys) < count:
            is_numbered = [sequence is not None for sequence in batches.of_each]
            columns = [list(compress(each, is_numbered)) for each in columns]
        rows = map(_stored_batch, zip(map(_first_of, batches.sequences), *columns, strict=True))
        self._note(batches.keys, batches.streams, rows)

    def _note(
        self,
        keys: Sequence[StreamKey],
        streams: Sequence[Stream],
        rows: Iterable[StoredBatch],
        *,
        by_caller: bool = True,
    ) -> None:
        """Note stored batches of streams, which are the last ones used now.

        Args:
            keys: Of the streams.
            streams: As they were.
            rows: The last batch of each.
            by_caller: Whether the present call has brought them.
        """
        known, pop, user = self._streams, self._streams.pop, None
        for key, (epoch, batches, owned_by), row in zip(keys, streams, rows, strict=True):
            pop(key, None)
            owner = owned_by
            if owner is None and by_caller:
                # Asked for once for each stream: that costs as much as all the rest.
                owner = user = self._user() if user is None else user
            known[key] = _stream((epoch, (*batches[1 - BATCHES_KEPT :], row), owner))
        self.change_count += len(keys)
        if len(known) > self._stream_count_max:
            self._make_room()

    def replay(self, stretch: Stretch) -> None:
        """Note the batches in a stretch of the log."""
        for batch in sequenced_batches(stretch):
            self.restore(batch)

    def restore(self, found: SequencedBatch) -> None:
        """Note a batch found in the log; batches come in the order of the log.

        The log is always right: it continues behind damage, and begins anew after a topic's
            deletion.
        """
        if found.commit_log_offset < self._deleted_end(found.topic):
            return
        sequence = found.sequence
        queue = QueueKey(found.topic, found.queue_id)
        stream = self._streams.get((sequence.producer_id, *queue))
        batch = StoredBatch(
            first_sequence=sequence.first_sequence,
            record_count=found.record_count,
            first_queue_offset=found.first_queue_offset,
            commit_log_offset=found.commit_log_offset,
            next_commit_log_offset=found.next_commit_log_offset,
            store_timestamp_ms=found.store_timestamp_ms,
        )
        if stream is not None:
            if sequence.epoch < stream.epoch:
                return
            if stream.batches[-1].next_sequence != batch.first_sequence:
                del self._streams[(sequence.producer_id, *queue)]
        self.remember(queue, sequence, batch, by_caller=False)

    def forget_expired(self) -> Iterator[None]:
        """Forget the streams that were not used for long; yields once for each."""
        for key, stream in list(self._streams.items()):
            if self._is_live(stream):
                break
            if self._streams.get(key) is stream:
                self._forget([key])
            yield None
        since_ms = self.matters_since_ms
        for topic, last_used_ms in list(self._crowded_out_ms.items()):
            if last_used_ms < since_ms:
                del self._crowded_out_ms[topic]

    def forget_topics(self, topics: Container[str]) -> Iterator[None]:
        """Forget the streams of deleted topics; yields once for each that is examined."""
        for key in list(self._streams):
            if key[1] in topics and key in self._streams:
                self._forget([key])
            yield None

    def keep_topics(self, is_known_topic: Callable[[str], bool]) -> None:
        """Forget the streams of topics that no longer exist."""
        self._forget([key for key in self._streams if not is_known_topic(key[1])])

    def clear(self) -> None:
        """Forget everything."""
        self._streams.clear()
        self._crowded_out_ms.clear()

    def copied(self) -> Document:
        """Copy everything."""
        streams, crowded_out_ms = self._streams.copy(), self._crowded_out_ms.copy()

        def contents() -> dict[str, Any]:
            return {
                "streams": [
                    [*key, epoch, batches, user or ""]
                    for key, (epoch, batches, user) in streams.items()
                ],
                "crowdedOut": list(crowded_out_ms.items()),
            }

        return contents

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Restore the state from what ``copied`` made."""
        streams: dict[StreamKey, Stream] = {}
        for producer_id, topic, queue_id, epoch, rows, user in contents["streams"]:
            batches = tuple(starmap(StoredBatch, (map(int, row) for row in rows)))
            if not batches:
                raise ValueError("a stream without batches")
            stream = Stream(int(epoch), batches, str(user) or None)
            streams[int(producer_id), str(topic), int(queue_id)] = stream
        crowded_out = {str(topic): int(used_ms) for topic, used_ms in contents["crowdedOut"]}
        self._streams, self._crowded_out_ms = streams, crowded_out

    def _make_room(self) -> None:
        """Forget streams, of those who have most first."""
        keys = list(self._streams)
        owners = list(map(owner_of, keys, self._streams.values()))
        for place in outgoing(owners, self._stream_count_max):
            used_ms, topic = self._streams.pop(keys[place]).last_used_ms, keys[place][1]
            self._crowded_out_ms[topic] = max(self._crowded_out_ms.get(topic, 0), used_ms)

    def _known_ms(self, topic: str) -> int:
        """How long it is known that a stream to a topic, which is not, was not used.

        Whoever began it: users change, and the log does not name them. So one who begins ever new
        streams to a topic lessens this for all who send to it. That costs them little: the outcome
        of a lost call stays unknown where the broker does not know the stream either. Too much
        would have a message stored twice.
        """
        used_ms = self._crowded_out_ms.get(topic, 0)
        return min(max(0, self._now_ms() - used_ms - 1), self._known_ms_max(topic))

    def _known_ms_max(self, topic: str) -> int:
        """For how long at most it is known what was stored: not before the topic's deletion."""
        return 0 if self._deleted_end(topic) else self._expiry_ms

    def _live_stream(self, key: StreamKey) -> Stream | None:
        stream = self._streams.get(key)
        if stream is None or self._is_live(stream):
            return stream
        self._forget([key])
        return None

    def _is_live(self, stream: Stream) -> bool:
        return stream.last_used_ms >= self.matters_since_ms

    def _forget(self, keys: Collection[StreamKey]) -> None:
        for key in keys:
            del self._streams[key]
        self.change_count += len(keys)
