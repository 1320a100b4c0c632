"""Records: message bytes that are the same on the wire and on disk."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ariane_record.checksums.java_hash import key_hash, tag_code
    from ariane_record.encoding.block import KEYS_MAX, BlockEncoder, encode_block
    from ariane_record.encoding.record_table import RecordTable
    from ariane_record.errors import (
        BlockFull,
        IllegalName,
        IllegalProperty,
        RecordCorrupted,
        RecordError,
        RecordTooLarge,
    )
    from ariane_record.layout import (
        CommitLogOffset,
        ConsumerOffset,
        Host,
        PropertyName,
        QueueOffset,
        SystemFlag,
    )
    from ariane_record.names import check_group_name, check_topic_name, is_system_topic
    from ariane_record.single.message import (
        RecordFields,
        decode_record,
        encode_record,
        record_checksum_ok,
    )
    from ariane_record.single.producer_sequence import ProducerSequence, StoredSequence
    from ariane_record.single.properties import decode_properties, encode_properties
else:
    from ariane_record.public_names import found as __getattr__  # noqa: F401 - Python looks for it.
    from ariane_record.public_names import names as __dir__  # noqa: F401 - Python looks for it.

__all__ = [
    "KEYS_MAX",
    "BlockEncoder",
    "BlockFull",
    "CommitLogOffset",
    "ConsumerOffset",
    "Host",
    "IllegalName",
    "IllegalProperty",
    "ProducerSequence",
    "PropertyName",
    "QueueOffset",
    "RecordCorrupted",
    "RecordError",
    "RecordFields",
    "RecordTable",
    "RecordTooLarge",
    "StoredSequence",
    "SystemFlag",
    "check_group_name",
    "check_topic_name",
    "decode_properties",
    "decode_record",
    "encode_block",
    "encode_properties",
    "encode_record",
    "is_system_topic",
    "key_hash",
    "record_checksum_ok",
    "tag_code",
]
