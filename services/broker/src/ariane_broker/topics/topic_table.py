"""The topics of this broker: queue counts, permission, message type.

The table itself is in memory. A change is made durable first and visible then: the caller asks for
the new entry (``created``, ``updated``), saves ``document_with`` it, and only then puts it here.
``config/topics.json`` has RocketMQ's shape::

    {"dataVersion": {"counter": 3, "stateVersion": 0, "timestamp": 1763715600000},
     "topicConfigTable": {"orders": {"topicName": "orders", "readQueueNums": 4, "perm": 6, ...}}}

and one key of our own in each entry, ``version``, which RocketMQ skips: the value of the counter
when the topic last changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntFlag, StrEnum
from typing import Any, Final

from ariane_broker.durable.data_version import DataVersion
from ariane_broker.errors.public_errors import topic_exists, topic_not_found
from ariane_record import is_system_topic
from ariane_servicekit import at_once
from ariane_servicekit.errors import field_invalid

QUEUE_COUNT_MAX: Final = 65536

MESSAGE_TYPE_ATTRIBUTE: Final = "message.type"

RETENTION_ATTRIBUTE: Final = "retention.ms"
"""For how long consumers see messages of the topic; without it, for as long as the broker keeps
them."""

SHOWN_SINCE_ATTRIBUTE: Final = "shown.since.ms"
"""Consumers see no message of the topic that was stored before this time, in milliseconds since the
epoch."""

_TIME_ATTRIBUTES: Final = frozenset({RETENTION_ATTRIBUTE, SHOWN_SINCE_ATTRIBUTE})

_TIME_MS_MAX: Final = 100 * 366 * 24 * 3_600_000

_ATTRIBUTE_VALUES: Final = {
    "cleanup.policy": frozenset({"DELETE"}),
    "queue.type": frozenset({"SimpleCQ"}),
}
"""The attributes that users may set, with the values that this broker implements."""


class Permission(IntFlag):
    """The permissions of a topic, in RocketMQ's bits."""

    NONE = 0
    INHERIT = 1
    WRITE = 2
    READ = 4
    READ_WRITE = 6


class TopicMessageType(StrEnum):
    """The kind of messages that a topic takes, in RocketMQ's words."""

    UNSPECIFIED = "UNSPECIFIED"
    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    MIXED = "MIXED"


_MESSAGE_TYPES: Final = {each.value: each for each in TopicMessageType}
_ANY_TYPES: Final = frozenset({TopicMessageType.UNSPECIFIED, TopicMessageType.MIXED})
"""Types of topics that take records of every type."""
_RECORD_TYPES: Final = frozenset({TopicMessageType.NORMAL, TopicMessageType.FIFO})
"""Types of topics that take ordinary records, all of which must be of the topic's type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One topic on this broker."""

    topic: str
    """The name."""
    read_queue_count: int
    """Queues that consumers read: 0 up to this, exclusive."""
    write_queue_count: int
    """Queues that producers write: 0 up to this, exclusive."""
    permission: Permission = Permission.READ_WRITE
    """The permissions."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Further settings, the message type among them."""
    order: bool = False
    """RocketMQ's mark of a topic whose queues have one order over all brokers."""
    system_flag: int = 0
    """RocketMQ's bits; kept unchanged."""
    filter_type: str = "SINGLE_TAG"
    """RocketMQ's kind of tags; kept unchanged."""
    version: int = 0
    """Grows with each change."""
    plain_queue_count: int = field(init=False, repr=False, compare=False)
    """Queues that records without a delay may go to: 0 up to this, exclusive."""
    record_type: TopicMessageType | None = field(init=False, repr=False, compare=False)
    """The type that each of these records must have, NORMAL or FIFO; None if any will do."""

    retention_ms: int | None = field(init=False, repr=False, compare=False)
    """For how long its messages are shown, in milliseconds; None for as long as they are kept."""

    shown_since_ms: int | None = field(init=False, repr=False, compare=False)
    """Messages that were stored before this time are not shown; None if there is none."""

    is_open: bool = field(init=False, repr=False, compare=False)
    """Whether every group may read it: it is readable, and none of the system."""

    def __post_init__(self) -> None:
        """Compute once what every append and every receive needs."""
        kind = self.message_type
        typed = kind in _RECORD_TYPES
        plain = self.writable and (typed or kind in _ANY_TYPES) and not self.system
        object.__setattr__(self, "plain_queue_count", self.write_queue_count if plain else 0)
        object.__setattr__(self, "record_type", kind if typed else None)
        object.__setattr__(self, "is_open", self.readable and not self.system)
        text = self.attributes.get(RETENTION_ATTRIBUTE, "")
        object.__setattr__(self, "retention_ms", _time_ms(text))
        text = self.attributes.get(SHOWN_SINCE_ATTRIBUTE, "")
        object.__setattr__(self, "shown_since_ms", _time_ms(text))

    @property
    def readable(self) -> bool:
        """Whether consumers may read the topic."""
        return bool(int.__and__(self.permission, Permission.READ))

    @property
    def writable(self) -> bool:
        """Whether producers may write to the topic."""
        # As numbers, because every append asks: `&` of flags would look up a name.
        return bool(int.__and__(self.permission, Permission.WRITE))

    def standing_queue(self, queue_id: int) -> int:
        """A queue that a message was for; another one where the topic has lost it since.

        Better another queue than a message that nobody gets. One that is written but not read still
        stands: an operator allowed it (``allow_unread_queues``), and reads what waits there later.
        """
        if queue_id < max(self.read_queue_count, self.write_queue_count):
            return queue_id
        return queue_id % max(1, min(self.read_queue_count, self.write_queue_count))

    @property
    def system(self) -> bool:
        """Whether the topic is one of the system."""
        return is_system_topic(self.topic)

    @property
    def message_type(self) -> TopicMessageType:
        """The type of messages that the topic takes; an unknown type takes any."""
        name = self.attributes.get(MESSAGE_TYPE_ATTRIBUTE, "UNSPECIFIED")
        return _MESSAGE_TYPES.get(name, TopicMessageType.UNSPECIFIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """A change of a topic; None leaves a setting as it is."""

    read_queue_count: int | None = None
    """New count of read queues."""
    write_queue_count: int | None = None
    """New count of write queues."""
    permission: Permission | None = None
    """New permission."""
    message_type: TopicMessageType | None = None
    """New message type."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes to set; an empty value removes one."""
    allow_unread_queues: bool = False
    """Whether queues that consumers do not read may have messages, or get them."""


class TopicTable:
    """All topics of this broker, in memory."""

    def __init__(self, *, now_ms: Callable[[], int], default_queue_count: int) -> None:
        self._now_ms = now_ms
        self._default_queue_count = default_queue_count
        self._topics: dict[str, TopicConfig] = {}
        # Asked for each row of a table, so not by way of a method in Python.
        self.find: Callable[[str], TopicConfig | None] = self._topics.get
        """Returns a topic, or None if the broker does not know it."""
        self._version = DataVersion()

    @property
    def version(self) -> int:
        """Version of the set of topics; every change raises it."""
        return self._version.counter

    def __len__(self) -> int:
        return len(self._topics)

    def get(self, topic: str) -> TopicConfig:
        """Return the topic.

        Raises:
            ServiceError: TOPIC_NOT_FOUND.
        """
        config = self._topics.get(topic)
        if config is None:
            raise topic_not_found(topic)
        return config

    def all(self) -> list[TopicConfig]:
        """All topics by name."""
        return [self._topics[name] for name in sorted(self._topics)]

    def walk(self) -> Iterator[TopicConfig]:
        """All topics as they are now, in any order."""
        return iter(list(self._topics.values()))

    def created(self, topic: str, change: TopicChange) -> TopicConfig:
        """The new topic as it would be; nothing is changed yet.

        Args:
            topic: A legal name.
            change: Its settings; counts of None or 0 mean the default.

        Raises:
            ServiceError: TOPIC_EXISTS, or FIELD_INVALID when a setting is out of range.
        """
        if topic in self._topics:
            raise topic_exists(topic)
        fresh = TopicConfig(
            topic=topic,
            read_queue_count=self._default_queue_count,
            write_queue_count=self._default_queue_count,
        )
        read_queue_count = change.read_queue_count or self._default_queue_count
        complete = replace(
            change,
            read_queue_count=read_queue_count,
            write_queue_count=change.write_queue_count or read_queue_count,
        )
        return self._changed(fresh, complete)

    def updated(self, topic: str, change: TopicChange) -> TopicConfig:
        """The topic as it would be after a change; nothing is changed yet.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, or FIELD_INVALID when a setting is out of range.
        """
        return self._changed(self.get(topic), change)

    def _changed(self, config: TopicConfig, change: TopicChange) -> TopicConfig:
        """The topic's settings after a change, if all are in range."""
        attributes = dict(config.attributes)
        for name, value in change.attributes.items():
            if value:
                if name in _TIME_ATTRIBUTES:
                    if _time_ms(value) is None:
                        rule = f"{name} is no time in ms, 1 to {_TIME_MS_MAX}"
                        raise field_invalid("attributes", rule, value)
                elif value not in _ATTRIBUTE_VALUES.get(name, ()):
                    raise field_invalid("attributes", "names what is not known here", name)
                attributes[name] = value
            else:
                attributes.pop(name, None)
        if change.message_type is TopicMessageType.UNSPECIFIED:
            attributes.pop(MESSAGE_TYPE_ATTRIBUTE, None)
        elif change.message_type is not None:
            attributes[MESSAGE_TYPE_ATTRIBUTE] = change.message_type.value
        changed = replace(
            config,
            read_queue_count=_given(change.read_queue_count, config.read_queue_count),
            write_queue_count=_given(change.write_queue_count, config.write_queue_count),
            permission=config.permission if change.permission is None else change.permission,
            attributes=attributes,
            version=self._version.counter + 1,
        )
        write_queue_count_min = 1 if changed.writable else 0
        _check_count("read_queue_count", changed.read_queue_count, 1)
        _check_count("write_queue_count", changed.write_queue_count, write_queue_count_min)
        return changed

    def document_with(self, *configs: TopicConfig, without: Collection[str] = ()) -> dict[str, Any]:
        """The same as ``documented_with``, at once: before the broker serves."""
        (document,) = at_once(self.documented_with(*configs, without=without))
        return document

    def documented_with(
        self, *configs: TopicConfig, without: Collection[str] = ()
    ) -> Iterator[dict[str, Any] | None]:
        """The file's content with these topics added or replaced, and others removed.

        Yields once for each topic before. Topics must not change meanwhile.
        """
        topics = self._topics | {config.topic: config for config in configs}
        for topic in without:
            topics.pop(topic, None)
        entries = {}
        for name in sorted(topics):
            entries[name] = _entry(topics[name])
            yield None
        yield {
            "dataVersion": self._version.next(self._now_ms()).document(),
            "topicConfigTable": entries,
        }

    def put(self, *configs: TopicConfig) -> None:
        """Make topics visible, new or changed."""
        for config in configs:
            self._topics[config.topic] = config
        self._version = self._version.next(self._now_ms())

    def remove(self, *topics: str) -> None:
        """Make topics invisible."""
        for topic in topics:
            del self._topics[topic]
        self._version = self._version.next(self._now_ms())

    def load(self, document: Mapping[str, Any]) -> None:
        """Load the content of a file.

        Raises:
            KeyError, TypeError, ValueError: The file has another shape.
        """
        self._version = DataVersion.from_document(document.get("dataVersion") or {})
        topics = topics_of(document)
        self._topics.clear()
        self._topics.update(topics)


def topics_of(document: Mapping[str, Any]) -> dict[str, TopicConfig]:
    """The topics of a file, by name.

    Raises:
        KeyError, TypeError, ValueError: The file has another shape.
    """
    newest = DataVersion.from_document(document.get("dataVersion") or {}).counter
    return {
        name: _config(name, entry, newest) for name, entry in document["topicConfigTable"].items()
    }


def _time_ms(text: str) -> int | None:
    """A time in milliseconds, if it is one that a topic may have."""
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        return None
    return int(text) if 0 < int(text) <= _TIME_MS_MAX else None


def _given(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _check_count(name: str, count: int, count_min: int) -> None:
    if not count_min <= count <= QUEUE_COUNT_MAX:
        raise field_invalid(name, f"must be {count_min} to {QUEUE_COUNT_MAX}", count)


def _entry(config: TopicConfig) -> dict[str, Any]:
    return {
        "attributes": dict(config.attributes),
        "order": config.order,
        "perm": int(config.permission),
        "readQueueNums": config.read_queue_count,
        "topicFilterType": config.filter_type,
        "topicName": config.topic,
        "topicSysFlag": config.system_flag,
        "version": config.version,
        "writeQueueNums": config.write_queue_count,
    }


def _config(name: str, entry: Mapping[str, Any], newest_version: int) -> TopicConfig:
    for key in ("readQueueNums", "writeQueueNums"):
        if not 0 <= int(entry[key]) <= QUEUE_COUNT_MAX:
            raise ValueError(f"topic {name!r} has {key} {entry[key]}: 0 to {QUEUE_COUNT_MAX}")
    return TopicConfig(
        topic=name,
        read_queue_count=int(entry["readQueueNums"]),
        write_queue_count=int(entry["writeQueueNums"]),
        permission=Permission(int(entry["perm"])),
        attributes=dict(entry.get("attributes") or {}),
        order=bool(entry.get("order", False)),
        system_flag=int(entry.get("topicSysFlag", 0)),
        filter_type=str(entry.get("topicFilterType", "SINGLE_TAG")),
        version=int(entry.get("version", newest_version)),
    )
