"""The messages that applications send and receive."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from ariane_record.counted import counted
from ariane_record.errors import RecordError
from ariane_record.layout import PropertyName, SystemFlag
from ariane_record.single.message_id import encode_offset_message_id
from ariane_record.single.view import MessageView
from ariane_sdk.errors import BodyDamaged
from ariane_sdk.message_queue import MessageQueue

_INT32: Final = Struct("<i")
_COMPRESSED: Final = int(SystemFlag.COMPRESSED)
_ATTEMPTS: Final = 14
"""Place of the attempts in ``layout.HEADER``."""


class _NoProperties(dict[str, str]):
    """The properties of all messages that have none; nothing can be added to them.

    A dictionary for each message would be one more object for the garbage collector to count.
    """

    __slots__ = ()

    # Data classes take nothing as a default that has no hash.
    def __hash__(self) -> int:  # type: ignore[override]
        return 0

    # What is kept elsewhere names no class of ours: other versions may not have it.
    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[()]]:
        return dict, ()

    def _refuse(self, *_arguments: object, **_pairs: object) -> NoReturn:
        raise TypeError("a message gets its properties when it is made: properties={...}")

    __setitem__ = setdefault = update = __ior__ = _refuse


_NO_PROPERTIES: Final = _NoProperties()


@dataclass(slots=True)
class Message:
    """A message to be sent."""

    topic: str
    """The topic."""
    body: bytes | bytearray | memoryview
    """The payload, at most 4 MiB."""
    tag: str = ""
    """One coarse label for filtering; optional. Must not contain ``||``."""
    keys: Sequence[str] = ()
    """Words by which it can be found, without spaces; at most 254."""
    message_group: str = ""
    """The ordering key: messages of one group stay in order; empty means no order."""
    properties: Mapping[str, str] = _NO_PROPERTIES
    """The application's own pairs of non-empty text."""
    flag: int = 0
    """Free for the application, 32 bits, signed."""
    deliver_at: datetime | None = None
    """When consumers get it, with a time zone; a time in the past means now. Only one of this and
    the next two may be set, and none with a message group."""
    delay: timedelta | None = None
    """How long after the broker takes it consumers get it, by the broker's clock."""
    delay_level: int = 0
    """The same by the broker's table: 1 (1 s) to 18 (2 h); 0 means at once."""
    priority: int = 0
    """Consumers that receive by priority get higher ones first; 32 bits, signed."""
    expire_after: timedelta | None = None
    """How long after its send consumers may get it; later, brokers pass it over. By the clocks
    of producer and broker. ``QueueReader`` and Spark read it all the same."""

    @property
    def stored_properties(self) -> Mapping[str, str]:
        """The stored pairs of text: the application's own, and the priority if there is one."""
        if self.priority == 0:
            return self.properties
        # What is no number of 32 bits is an error of `struct` here.
        (priority,) = _INT32.unpack(_INT32.pack(self.priority))
        return {**self.properties, PropertyName.PRIORITY: str(priority)}


@dataclass(slots=True)
class SystemMessage(Message):
    """A message created by the client; it may have properties of the system."""


@dataclass(slots=True)
class RelayedMessage(SystemMessage):
    """A message that a gateway has from another client, and that stays who it is."""

    unique_id: str = ""
    """The id that its producer gave it; never empty."""
    born_timestamp_ms: int = 0
    """When its producer made it, by the producer's clock."""
    producer_group: str = ""
    """The group that is asked about its transaction, if it has one."""


class AcknowledgedLevel(IntEnum):
    """How safe a message is when its send returns; the numbers are those of the contract."""

    UNSPECIFIED = 0
    MEMORY = 1
    FLUSHED = 2
    REPLICATED = 3


class SendResult(NamedTuple):
    """Where a message was stored, and how safe it is."""

    message_queue: MessageQueue
    """Its queue."""
    queue_offset: int
    """Its index there."""
    commit_log_offset: int
    """Byte position of its record in the broker's commit log."""
    unique_id: str
    """The id that this client gave it."""
    acknowledged_level: AcknowledgedLevel
    """In memory, flushed, replicated."""
    store_timestamp_ms: int
    """When it was stored, by the broker's clock."""
    broker_address: str
    """The broker, "host:port"."""
    duplicate: bool = False
    """Whether an earlier try, whose answer was lost, had stored it."""
    recall_handle: str = ""
    """Withdraws the message before its delivery (``Producer.recall``), if it has ``deliver_at`` or
    ``delay``. The offsets of a delayed message are those of the place where it waits."""

    @property
    def message_id(self) -> str:
        """The broker's own id of it; empty if the broker is known by name, not by address."""
        host, _, port = self.broker_address.rpartition(":")
        try:
            return encode_offset_message_id((host.strip("[]"), int(port)), self.commit_log_offset)
        except ValueError:
            return ""


# `tuple.__new__` by way of `partial`: no Python statement for each result of a batch.
new_send_result = partial(tuple.__new__, SendResult)


# Never changed; not frozen, because making it would take more than twice as long.
@dataclass(slots=True, eq=False)
class Receipt:
    """Settles messages of one queue that were received together."""

    message_queue: MessageQueue
    """Their queue."""
    address: str
    """The process of the broker that delivered them, "host:port". Another one may be its primary by
    now."""
    token: bytes
    """Identifies them to the broker."""
    attempts: int
    """How often each was delivered before, from 0."""
    invisible_until_ms: int
    """Until when no other member gets them, by the broker's clock, unless that is changed."""
    held_until_s: float = math.inf
    """Until when this client relies on that, by its monotonic clock: a little less; infinite if the
    broker keeps them invisible."""


class ReceivedMessage(MessageView):
    """A received message: the body at hand, everything else decoded on access.

    A compressed body is decompressed on first access; if that fails, the access raises
    ``BodyDamaged``.
    """

    __slots__ = ("message_queue", "receipt")

    message_queue: MessageQueue
    """The queue it came from."""

    if TYPE_CHECKING:  # A slot that most messages leave empty.
        receipt: Receipt
        """Settles it; only messages of a ``ReceiveConsumer`` have one."""

    @property
    def attempts(self) -> int:
        """How often it was delivered to its group before this time, from 0."""
        receipt: Receipt | None = getattr(self, "receipt", None)
        return super().attempts if receipt is None else receipt.attempts

    def __init__(self, view: MessageView, message_queue: MessageQueue) -> None:
        """Take a message that came out of a queue."""
        self.topic = view.topic
        self._header = view._header  # noqa: SLF001 - a subclass takes over its parent's parts.
        if self._header[7] & _COMPRESSED:
            self._stored_body = view._stored_body  # noqa: SLF001 - the same.
        else:
            self.body = view.body
        self._encoded_properties = view._encoded_properties  # noqa: SLF001 - the same.
        self._properties = None
        self.message_queue = message_queue

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> bytes:
            try:
                return super().__getattr__(name)
            except RecordError as error:
                raise BodyDamaged(
                    f"{self.message_queue} at {self.queue_offset}: {error}"
                ) from error

    @property
    def born_time(self) -> datetime:
        """When the producer made it, by the producer's clock."""
        return datetime.fromtimestamp(self.born_timestamp_ms / 1000, UTC)

    @property
    def store_time(self) -> datetime:
        """When the broker stored it, by the broker's clock."""
        return datetime.fromtimestamp(self.store_timestamp_ms / 1000, UTC)

    @property
    def expire_time(self) -> datetime | None:
        """When it expires, if its producer has set ``expire_after``."""
        text = self.properties.get(PropertyName.EXPIRES_AT, "")
        if not text.isdecimal():
            return None
        return datetime.fromtimestamp(int(text) / 1000, UTC)

    @property
    def delivery_time(self) -> datetime | None:
        """When it was due, if its producer had asked for a time or a delay in milliseconds."""
        text = self.properties.get(PropertyName.DELIVERY_TIME_MS, "")
        if not text.isdecimal():
            return None
        return datetime.fromtimestamp(int(text) / 1000, UTC)

    def __repr__(self) -> str:
        return (
            f"<ReceivedMessage {self.message_queue} at {self.queue_offset},"
            f" {counted(len(self.stored_body), 'byte')}, tag {self.tag!r}>"
        )


def count_attempt(messages: Iterable[ReceivedMessage]) -> None:
    """Count an attempt of this consumer at messages that it delivers again from here."""
    for message in messages:
        header = message._header  # noqa: SLF001 - a subclass has its parent's parts.
        message._header = (*header[:_ATTEMPTS], header[_ATTEMPTS] + 1, *header[_ATTEMPTS + 1 :])  # noqa: SLF001
