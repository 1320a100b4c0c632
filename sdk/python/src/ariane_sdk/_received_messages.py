"""Pulled records as messages: the way to a listener, without a Python statement for each.

A record is cut at places that numpy has computed for all of them; what a listener may never look
at, the header above all, stays as bytes until it does.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.columns import RecordColumns, decode_columns
from ariane_record.layout import HEADER_STRUCTS, HOST_FLAGS, SystemFlag
from ariane_record.view import iter_messages
from ariane_sdk._message import MessageQueue, ReceivedMessage

_LONG_WAY: Final = int(HOST_FLAGS | SystemFlag.COMPRESSED)
"""Bits of the system flag of records that are taken apart one by one."""

_unpack_header = HEADER_STRUCTS[False, False].unpack


class PulledMessage(ReceivedMessage):
    """A message whose header is decoded when something of it is asked for."""

    __slots__ = ("_raw_header",)

    def __init__(
        self,
        topic: str,
        body: bytes,
        raw_header: bytes,
        encoded_properties: bytes,
        message_queue: MessageQueue,
    ) -> None:
        """Put the parts together.

        Args:
            topic: The topic.
            body: The body, not compressed.
            raw_header: ``layout.HEADER`` with IPv4 hosts, as stored.
            encoded_properties: The properties as stored.
            message_queue: The queue.
        """
        self.topic = topic
        self.body = body
        self._raw_header = raw_header
        self._encoded_properties = encoded_properties
        self._properties = None
        self.message_queue = message_queue

    if not TYPE_CHECKING:  # Type checkers would take any name for an attribute.

        def __getattr__(self, name: str) -> object:
            # Python asks here for a slot that was never filled.
            if name == "_header":
                self._header = _unpack_header(self._raw_header)
                return self._header
            return super().__getattr__(name)


def received_messages(
    records: bytes, sizes: NDArray[np.integer[Any]], queue: MessageQueue
) -> list[ReceivedMessage]:
    """The messages of records of one queue that lie back to back.

    Args:
        records: The records.
        sizes: Bytes of each, an integer[count].
        queue: The queue.

    Raises:
        RecordCorrupted: A record is malformed. Checksums are not compared.
    """
    columns = decode_columns(records, sizes.astype(np.int32, copy=False))
    if (columns.system_flag & _LONG_WAY).any() or not _are_of(columns, queue.topic):
        return list(map(ReceivedMessage, iter_messages(records, sizes), repeat(queue)))
    cut = records.__getitem__
    starts, body_starts = columns.starts.tolist(), columns.body_start.tolist()
    body_ends = (columns.body_start + columns.body_length).tolist()
    properties_starts = columns.properties_start.tolist()
    ends = (columns.starts + columns.sizes).tolist()
    return list(
        map(
            PulledMessage,
            repeat(queue.topic),
            map(cut, map(slice, body_starts, body_ends)),
            map(cut, map(slice, starts, body_starts)),
            map(cut, map(slice, properties_starts, ends)),
            repeat(queue),
        )
    )


def _are_of(columns: RecordColumns, topic: str) -> bool:
    """Whether all records name this topic."""
    name = topic.encode()
    if not len(columns) or (columns.topic_length != len(name)).any():
        return False
    octets = np.frombuffer(columns.records, np.uint8)
    places = columns.topic_start[:, np.newaxis] + np.arange(len(name))
    return bool((octets[places] == np.frombuffer(name, np.uint8)).all())
