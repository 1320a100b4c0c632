"""Positions in queues, and their one form as JSON.

A position is the next queue offset to read, so every range is half open: ``[begin, end)``. Users
write positions as JSON, and Spark keeps them in the same form in its checkpoint::

    {"orders": {"broker-a": {"0": 23, "1": 40}, "broker-b": {"0": 7}}}

In a checkpoint each broker has one more entry, ``"logEpoch"``: the epoch of its log when these
positions were read. By it the broker can tell whether the earlier messages are still there, or the
topic is a new one of the same name. If a micro-batch is the first to read some queues, ``"begins"``
says where it begins with them: all ranges of a replay follow from the checkpoint. ``"done"`` lists
queues that took no more messages, as those of a drained broker, and that are read to their ends.

Spark compares positions as text. So there is exactly one text for given positions: topics and
brokers are sorted by name, queues by number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_spark.errors import OptionIllegal

LOG_EPOCH: Final = "logEpoch"
"""The key of the epoch among the queue ids of a broker."""

BEGINS: Final = "begins"
"""The key of the begins of new queues among the queue ids of a broker."""

DONE: Final = "done"
"""The key of the queues that are done among the queue ids of a broker."""

QUEUE_ID_DIGITS_MAX: Final = 9
"""A topic has far fewer queues."""

LATEST: Final = QueueOffset(-1)
"""The readable end of a queue, in offsets of users."""

EARLIEST: Final = QueueOffset(-2)
"""The oldest kept offset, in offsets of users."""


class Bounds(NamedTuple):
    """The kept range of one queue."""

    earliest: QueueOffset
    """Oldest queue offset that is kept."""
    latest: QueueOffset
    """Readable end, exclusive."""
    size_bytes: int = 0
    """Estimated bytes of the kept messages."""
    log_epoch: int = 0
    """The present epoch of the broker's log; 0 if unknown."""
    is_closed: bool = False
    """Whether it takes no messages now: its broker is drained, or the topic has fewer queues."""

    @property
    def message_bytes(self) -> float:
        """The average bytes of one message; 0 if unknown."""
        return self.size_bytes / max(1, self.latest - self.earliest)


Positions: TypeAlias = dict[MessageQueue, QueueOffset]
"""The next queue offset to read, by queue."""

OffsetsJson: TypeAlias = dict[str, dict[str, dict[str, Any]]]
"""Positions as Spark keeps them: topic, broker, queue id as text, queue offset."""


class OffsetsMalformed(ValueError):
    """A text or structure that does not describe positions."""


LogEpochs: TypeAlias = dict[tuple[str, str], int]
"""The log epoch of positions, by topic and broker."""


def to_json(
    positions: Mapping[MessageQueue, int],
    log_epochs: Mapping[tuple[str, str], int] = MappingProxyType({}),
    begins: Mapping[MessageQueue, int] = MappingProxyType({}),
    done: Iterable[MessageQueue] = (),
) -> OffsetsJson:
    """The form of these positions for Spark.

    Args:
        positions: The positions.
        log_epochs: The log epochs, by topic and broker.
        begins: Where queues begin that were not read before.
        done: Queues that take no more messages and are read to their ends.
    """
    offsets: OffsetsJson = {}
    for queue in sorted(positions):
        by_broker = offsets.setdefault(queue.topic, {})
        by_broker.setdefault(queue.broker_name, {})[str(queue.queue_id)] = positions[queue]
    for topic, by_broker in offsets.items():
        for broker_name, by_queue in by_broker.items():
            log_epoch = log_epochs.get((topic, broker_name), 0)
            if log_epoch:
                by_queue[LOG_EPOCH] = log_epoch
    for queue in sorted(begins):
        of_broker = offsets[queue.topic][queue.broker_name]
        of_broker.setdefault(BEGINS, {})[str(queue.queue_id)] = begins[queue]
    for queue in sorted(done):
        offsets[queue.topic][queue.broker_name].setdefault(DONE, []).append(queue.queue_id)
    return offsets


def epochs_of(bounds: Mapping[MessageQueue, Bounds]) -> LogEpochs:
    """The log epoch of each topic and broker in bounds; 0 where it is not known.

    A new primary says none until all brokers in sync have heard of it. Of queues whose bounds were
    asked for in different epochs no epoch is right.
    """
    epochs: LogEpochs = {}
    for queue, kept in bounds.items():
        name = (queue.topic, queue.broker_name)
        epochs[name] = kept.log_epoch if epochs.get(name, kept.log_epoch) == kept.log_epoch else 0
    return epochs


def log_epochs_of(offsets: Mapping[str, Any]) -> LogEpochs:
    """The log epochs in offsets from Spark; only if ``from_json`` has read them."""
    return {
        (topic, broker_name): int(by_queue[LOG_EPOCH])
        for topic, by_broker in offsets.items()
        for broker_name, by_queue in by_broker.items()
        if LOG_EPOCH in by_queue
    }


def begins_of(offsets: Mapping[str, Any]) -> Positions:
    """The begins of new queues in offsets from Spark; only if ``from_json`` has read them."""
    return {
        MessageQueue(topic, broker_name, int(queue_id)): QueueOffset(begin)
        for topic, by_broker in offsets.items()
        for broker_name, by_queue in by_broker.items()
        for queue_id, begin in by_queue.get(BEGINS, {}).items()
    }


def done_in(offsets: Mapping[str, Any]) -> frozenset[MessageQueue]:
    """The queues that are done in offsets from Spark; only if ``from_json`` has read them."""
    return frozenset(
        MessageQueue(topic, broker_name, queue_id)
        for topic, by_broker in offsets.items()
        for broker_name, by_queue in by_broker.items()
        for queue_id in by_queue.get(DONE, ())
    )


def done_by(
    positions: Mapping[MessageQueue, int],
    bounds: Mapping[MessageQueue, Bounds],
    before: frozenset[MessageQueue],
) -> frozenset[MessageQueue]:
    """The queues that take no more messages and are read to their ends.

    Args:
        positions: Up to where queues are read.
        bounds: The queues that brokers have now; others are done if they were ``before``.
        before: The queues that were done.
    """
    return (before - bounds.keys()) | {
        queue
        for queue, kept in bounds.items()
        if kept.is_closed and positions.get(queue) == kept.latest
    }


def from_checkpoint(offsets: Any) -> Positions:
    """The positions in Spark's checkpoint.

    Raises:
        OptionIllegal: They were written by another source.
    """
    try:
        return from_json(offsets)
    except OffsetsMalformed as error:
        raise OptionIllegal(
            "checkpointLocation",
            f"is that of another kind of source: {error}; each query needs a checkpoint of its own",
        ) from error


def from_json(offsets: Mapping[str, Any]) -> Positions:
    """The positions from Spark, or from a user.

    Args:
        offsets: Nested by topic, broker and queue id. Queue offsets are 0 and more, or -1 and -2
            for the latest and the earliest.

    Raises:
        OffsetsMalformed: The structure is wrong; the error names the place.
    """
    positions: Positions = {}
    for queue, queue_offset in _by_queue(offsets):
        if type(queue_offset) is not int or queue_offset < EARLIEST:
            raise OffsetsMalformed(
                f"{_place(queue)}: {queue_offset!r} is no queue offset"
                " (0 and more, -1 for the latest, -2 for the earliest)"
            )
        positions[queue] = QueueOffset(queue_offset)
    return positions


def parse_offsets(text: str) -> Positions:
    """The positions in a user's JSON text.

    Besides the nested form there is a flat one: ``{"orders/broker-a/0": 23}``.

    Raises:
        OffsetsMalformed: The text is not JSON, or JSON of another shape.
    """
    return from_json(_nested(_parse(text)))


def parse_times(text: str) -> dict[MessageQueue, str]:
    """The times in a JSON text of the same two forms, as texts.

    Raises:
        OffsetsMalformed: The text is not JSON, or JSON of another shape.
    """
    times = {}
    for queue, moment in _by_queue(_nested(_parse(text))):
        if type(moment) not in {int, str}:
            raise OffsetsMalformed(f"{_place(queue)}: {moment!r} is no time")
        times[queue] = str(moment)
    return times


def parse_queues(text: str) -> frozenset[MessageQueue]:
    """The queues in a user's JSON text.

    Either ``{"orders": {"broker-a": [0, 1]}}`` or ``["orders/broker-a/0", "orders/broker-a/1"]``.

    Raises:
        OffsetsMalformed: The text is not JSON, JSON of another shape, or has no queue.
    """
    named = _parse(text)
    if isinstance(named, list):
        named = {str(name): None for name in named}
        queues = [queue for queue, _ in _by_queue(_nested(named))]
    else:
        queues = [
            MessageQueue(topic, broker_name, _queue_id(str(queue_id), f"{topic}/{broker_name}"))
            for topic, brokers in _entries(named, "the queues")
            for broker_name, queue_ids in _entries(brokers, topic)
            for queue_id in _listed(queue_ids, f"{topic}/{broker_name}")
        ]
    if not queues:
        raise OffsetsMalformed("names no queue")
    return frozenset(queues)


def _parse(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except OffsetsMalformed:
        raise
    except (ValueError, RecursionError) as error:  # Also a number of thousands of digits.
        raise OffsetsMalformed(f"no JSON: {error}") from error


def _by_queue(nested: Any) -> Iterator[tuple[MessageQueue, Any]]:
    """The values of a nested form, by queue."""
    for topic, brokers in _entries(nested, "the offsets"):
        for broker_name, queues in _entries(brokers, topic):
            place = f"{topic}/{broker_name}"
            for queue_id, value in _entries(queues, place):
                if queue_id in {LOG_EPOCH, BEGINS, DONE}:
                    continue
                yield MessageQueue(topic, broker_name, _queue_id(queue_id, place)), value


def _queue_id(text: str, place: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= QUEUE_ID_DIGITS_MAX):
        raise OffsetsMalformed(f"{place}/{text}: {text!r} is no queue id")
    return int(text)


def _listed(queue_ids: Any, place: str) -> list[Any]:
    if not isinstance(queue_ids, list):
        raise OffsetsMalformed(f"{place}: expected a list of queue ids, found {queue_ids!r}")
    return queue_ids


def _place(queue: MessageQueue) -> str:
    return "/".join(map(str, queue))


def _nested(offsets: Any) -> Any:
    """The nested form of a document that may have flat entries."""
    if not isinstance(offsets, dict) or not any("/" in name for name in offsets):
        return offsets
    nested: dict[str, Any] = {}
    for name, value in offsets.items():
        match name.split("/"):
            case [topic, broker_name, queue_id]:
                by_queue = nested.setdefault(topic, {}).setdefault(broker_name, {})
                if queue_id in by_queue:
                    raise OffsetsMalformed(f"{name} comes twice")
                by_queue[queue_id] = value
            case _:
                raise OffsetsMalformed(
                    f'{name!r}: a flat entry is named "topic/broker/queue id", and all are flat'
                )
    return nested


def _entries(mapping: Any, place: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(mapping, Mapping):
        raise OffsetsMalformed(
            f"{place}: expected the form "
            '{"topic": {"broker": {"queue id": queue offset}}}, '
            f"found {mapping!r}"
        )
    return mapping.items()


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; one with a repeated name is refused."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise OffsetsMalformed(f"a name comes twice among {', '.join(names)}")
    return dict(pairs)
