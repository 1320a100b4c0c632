"""Where the names of this package are; each is loaded when it is first asked for.

Rules for names are asked by programs that have no records, and numpy takes long to load.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

_HOMES: Final = {
    "ariane_record.checksums.java_hash": ("key_hash", "tag_code"),
    "ariane_record.encoding.block": ("KEYS_MAX", "BlockEncoder", "encode_block"),
    "ariane_record.encoding.record_block": ("RecordBlock",),
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
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def found(name: str) -> object:
    """What the package has under a name: its ``__getattr__``.

    Raises:
        AttributeError: Nothing.
    """
    if name not in _HOME_OF:
        raise AttributeError(f"module {__package__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    setattr(sys.modules[__package__], name, value)
    return value


def names() -> list[str]:
    """All of them: its ``__dir__``."""
    return sorted(_HOME_OF)
