"""The name of a topic in a record, after its length.

::

    V1    | length u8  | topic |     up to 127 bytes
    V2    | length u16 | topic |     more
"""

from __future__ import annotations

from functools import lru_cache

from ariane_record.errors import RecordTooLarge
from ariane_record.layout import MAGIC_V1, MAGIC_V2, TOPIC_V1_BYTES_MAX, TOPIC_V2_BYTES_MAX


@lru_cache(maxsize=4096)
def counted_topic(topic: str) -> tuple[int, bytes]:
    """The magic code of the records of a topic, and the topic after its length.

    Raises:
        RecordTooLarge: The topic does not fit into its length field.
    """
    encoded = topic.encode()
    if len(encoded) > TOPIC_V2_BYTES_MAX:
        raise RecordTooLarge(f"topic of {len(encoded)} bytes")
    version_2 = len(encoded) > TOPIC_V1_BYTES_MAX
    counted = len(encoded).to_bytes(2 if version_2 else 1, "big") + encoded
    return MAGIC_V2 if version_2 else MAGIC_V1, counted
