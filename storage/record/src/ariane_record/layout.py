"""The layout of a record: a message as bytes, the same on the wire and in the commit log.

Everything is big-endian. With IPv4 hosts (the normal case) a record looks like this::

    0        4        8       12       16       20               28               36       40
    +--------+--------+--------+--------+--------+----------------+----------------+--------+
    |  size  | magic  |bodyCRC |queue id|  flag  |  queue offset  |commit-log offset|sys flag|
    +--------+--------+--------+--------+--------+----------------+----------------+--------+
    40               48               56               64               72       76
    +----------------+--------+--------+----------------+--------+--------+--------+
    | born timestamp |born ip | port   | store timestamp|store ip| port   |attempts|
    +----------------+--------+--------+----------------+--------+--------+--------+
    76               84       88            88+b      +1 (V1) / +2 (V2)          +2
    +----------------+--------+---- ... ----+-----+---- ... ----+------+--- ... ---+
    | half message   | body   |    body     |topic|    topic    |props |properties |
    | offset         | length |             |len  |             |length|           |
    +----------------+--------+---- ... ----+-----+---- ... ----+------+--- ... ---+

* An IPv6 host takes 16 bytes for its address instead of 4 and moves everything after it by 12;
  two bits of the system flag show which hosts are IPv6.
* The topic length is one byte in V1 (magic 0xDAA320A7) and two in V2 (0xDAA320AB), which a topic
  of more than 127 bytes needs.
* ``bodyCRC`` is CRC-32 (zlib polynomial) of the body as stored, and 0x7FFFFFFF.
* Properties are ``name 0x01 value 0x02`` repeated. The last one may be the checksum of the whole
  record, always 20 bytes: ``__CRC32#`` 0x01, ten decimal digits least significant first, 0x02.
  It covers every byte of the record before those 20.

Source: the Apache RocketMQ store (``CommitLog``, ``MessageExtEncoder``, ``MessageDecoder``), which
reads and writes the same bytes.
"""

from __future__ import annotations

from enum import IntFlag
from struct import Struct
from typing import Final, NewType, TypeAlias

import numpy as np

ByteBuffer: TypeAlias = bytes | bytearray | memoryview
"""Contiguous memory of records, one byte per element."""

Host: TypeAlias = tuple[str, int]
"""IP address in its usual spelling, and port."""

CommitLogOffset = NewType("CommitLogOffset", int)
"""Byte position in the commit log (RocketMQ: physical offset)."""

QueueOffset = NewType("QueueOffset", int)
"""Index of a message in its message queue: 0, 1, 2 and so on."""

ConsumerOffset = NewType("ConsumerOffset", int)
"""The next queue offset that a consumer group will consume."""

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
"""Opens the filler at the end of a segment: ``[i32 room left][i32 MAGIC_BLANK]``."""

BLANK_SIZE_MIN_BYTES: Final = 8
"""Room that must stay free after the last record of a segment, so that the filler fits."""

CRC_MASK: Final = 0x7FFFFFFF

TOPIC_V1_BYTES_MAX: Final = 127
TOPIC_V2_BYTES_MAX: Final = 0x7FFF
PROPERTIES_BYTES_MAX: Final = 0x7FFF
PRODUCER_PROPERTIES_BYTES_MAX: Final = PROPERTIES_BYTES_MAX - 1024
"""The part of it that a producer may use. Brokers need the rest for properties of messages that
wait or were returned; without it, such a message would block its queue."""

IPV6_EXTRA_BYTES: Final = 12


class SystemFlag(IntFlag):
    """Bits of the system flag of a record."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC
    BORN_HOST_IPV6 = 0x10
    STORE_HOST_IPV6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    COMPRESSION_LZ4 = 0x100
    COMPRESSION_ZSTD = 0x200
    COMPRESSION_ZLIB = 0x300
    EXPIRES = 0x4000
    """Ours; RocketMQ skips it. The property ``EXPIRES_AT`` says when."""


HOST_FLAGS: Final = int(SystemFlag.BORN_HOST_IPV6 | SystemFlag.STORE_HOST_IPV6)
TRANSACTION_MASK: Final = 0xC
COMPRESSION_TYPE_MASK: Final = 0x700

HEADER: Final = np.dtype(
    [
        ("size", ">i4"),  # The whole record, this field included.
        ("magic", ">u4"),
        ("body_crc", ">u4"),
        ("queue_id", ">i4"),  # Owned by the broker.
        ("flag", ">i4"),  # Free for the application.
        ("queue_offset", ">i8"),  # Owned by the broker.
        ("commit_log_offset", ">i8"),  # Owned by the broker; must equal the record's place.
        ("system_flag", ">i4"),
        ("born_timestamp", ">i8"),  # Milliseconds since the epoch, the producer's clock.
        ("born_ip", ">u4"),  # Owned by the broker: the address it saw.
        ("born_port", ">i4"),  # Owned by the broker.
        ("store_timestamp", ">i8"),  # Owned by the broker; milliseconds, never goes back.
        ("store_ip", ">u4"),  # Owned by the broker.
        ("store_port", ">i4"),  # Owned by the broker.
        ("attempts", ">i4"),  # How often it was consumed before (RocketMQ: reconsume times).
        ("half_offset", ">i8"),  # Commit-log offset of the half message, or 0.
        ("body_length", ">i4"),
    ]
)
"""The fixed part of a record with IPv4 hosts, up to the body: 88 bytes."""

HEADER_BYTES: Final = HEADER.itemsize

HEADER_STRUCTS: Final = {
    (born_ipv6, store_ipv6): Struct(
        f">iIIiiqqiq{16 if born_ipv6 else 4}siq{16 if store_ipv6 else 4}siiqi"
    )
    for born_ipv6 in (False, True)
    for store_ipv6 in (False, True)
}
"""The fixed part by (born host is IPv6, store host is IPv6), for one record at a time."""

# Zeros (``x``) in the fields that the broker owns: size, magic, body CRC, queue id, flag, both
# offsets, system flag, born timestamp, both hosts and the store timestamp, attempts, half offset,
# body length.
pack_unowned_header: Final = Struct(">iII 4x i 16x iq 24x iqi").pack
"""The fixed part of a record that the broker has not seen yet."""

SYSTEM_FLAG_START: Final = 36
"""The place of the system flag: before both hosts, so that their sizes are not needed."""

RECORD_BYTES_MIN: Final = HEADER_BYTES + 3
"""A record with an empty body, topic and properties."""

PROPERTY_NAME_END: Final = b"\x01"
PROPERTY_VALUE_END: Final = b"\x02"

CRC_PROPERTY_PREFIX: Final = b"__CRC32#\x01"
CRC_DIGITS: Final = 10
CRC_PROPERTY_BYTES: Final = len(CRC_PROPERTY_PREFIX) + CRC_DIGITS + len(PROPERTY_VALUE_END)
EMPTY_CRC_PROPERTY: Final = CRC_PROPERTY_PREFIX + b"0" * CRC_DIGITS + PROPERTY_VALUE_END
"""The room in which the broker writes the checksum of a record."""


class PropertyName:
    """Names of the properties that the system itself reads or writes."""

    KEYS = "KEYS"
    TAGS = "TAGS"
    UNIQUE_ID = "UNIQ_KEY"
    MESSAGE_GROUP = "__SHARDINGKEY"
    PRIORITY = "_SYS_MSG_PRIORITY_"
    WAIT = "WAIT"
    DELAY_LEVEL = "DELAY"
    DELIVERY_TIME_MS = "TIMER_DELIVER_MS"
    TIMER_OUT_MS = "TIMER_OUT_MS"
    TIMER_DELAY_MS = "TIMER_DELAY_MS"
    TIMER_DELAY_SECONDS = "TIMER_DELAY_SEC"
    TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
    RECALLED_KEY = "TIMER_DEL_UNIQKEY"
    REAL_TOPIC = "REAL_TOPIC"
    REAL_QUEUE_ID = "REAL_QID"
    HALF_MESSAGE = "TRAN_MSG"
    PRODUCER_GROUP = "PGROUP"
    TRANSACTION_ID = "__transactionId__"
    RETRY_TOPIC = "RETRY_TOPIC"
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
    ORIGIN_QUEUE_ID = "ORIGIN_QUEUE_ID"
    ORIGIN_QUEUE_OFFSET = "ORIGIN_QUEUE_OFFSET"
    RETURNED_OFFSET = "RETURNED_OFFSET"
    RETURN_ID = "RETURN_ID"
    LAST_ERROR = "LAST_ERROR"
    DEAD_LETTER_TOPIC = "DLQ_ORIGIN_TOPIC"
    DEAD_LETTER_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
    DEAD_LETTER_REASON = "DLQ_REASON"
    CONSUMER_DEATHS = "CONSUMER_DEATHS"
    REDRIVEN_FROM = "REDRIVEN_FROM"
    EXPIRES_AT = "EXPIRES_AT_MS"
    PRODUCER_SEQUENCE = "__PSEQ#"
    CHECKSUM = "__CRC32#"


KEY_SEPARATOR: Final = " "
