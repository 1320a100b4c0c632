"""The modules of this package's names; each is loaded on first use.

Programs without records use the rules for names, and numpy takes long to load.
"""

from __future__ import annotations

from typing import Final

from ariane_record.late_names import LateNames

_HOMES: Final = {
    "ariane_record.checksums.java_hash": ("key_hash", "tag_code"),
    "ariane_record.encoding.block": ("KEYS_MAX", "BlockEncoder", "encode_block"),
    "ariane_record.encoding.record_table": ("RecordTable",),
    "ariane_record.errors": (
        "BlockFull",
        "IllegalName",
        "IllegalProperty",
        "RecordCorrupted",
        "RecordError",
        "RecordTooLarge",
    ),
    "ariane_record.layout": (
        "CommitLogOffset",
        "ConsumerOffset",
        "Host",
        "PropertyName",
        "QueueOffset",
        "SystemFlag",
    ),
    "ariane_record.names": ("check_group_name", "check_topic_name", "is_system_topic"),
    "ariane_record.single.message": (
        "RecordFields",
        "decode_record",
        "encode_record",
        "record_checksum_ok",
    ),
    "ariane_record.single.producer_sequence": ("ProducerSequence", "StoredSequence"),
    "ariane_record.single.properties": ("decode_properties", "encode_properties"),
}
_NAMES: Final = LateNames("ariane_record", _HOMES)
found = _NAMES.found
names = _NAMES.names
