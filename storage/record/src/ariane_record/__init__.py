"""Records: message bytes that are the same on the wire and on disk."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ariane_record.checksums.java_hash import key_hash as key_hash
    from ariane_record.checksums.java_hash import tag_code as tag_code
    from ariane_record.encoding.message_properties import KEYS_MAX as KEYS_MAX
    from ariane_record.encoding.record_table import RecordTable as RecordTable
    from ariane_record.errors import IllegalName as IllegalName
    from ariane_record.errors import IllegalProperty as IllegalProperty
    from ariane_record.errors import RecordCorrupted as RecordCorrupted
    from ariane_record.errors import RecordError as RecordError
    from ariane_record.errors import RecordTooLarge as RecordTooLarge
    from ariane_record.layout import CommitLogOffset as CommitLogOffset
    from ariane_record.layout import ConsumerOffset as ConsumerOffset
    from ariane_record.layout import Host as Host
    from ariane_record.layout import PropertyName as PropertyName
    from ariane_record.layout import QueueOffset as QueueOffset
    from ariane_record.layout import SystemFlag as SystemFlag
    from ariane_record.names import check_group_name as check_group_name
    from ariane_record.names import check_topic_name as check_topic_name
    from ariane_record.names import is_system_topic as is_system_topic
    from ariane_record.single.message import RecordFields as RecordFields
    from ariane_record.single.message import decode_record as decode_record
    from ariane_record.single.message import encode_record as encode_record
    from ariane_record.single.message import record_checksum_ok as record_checksum_ok
    from ariane_record.single.producer_sequence import ProducerSequence as ProducerSequence
    from ariane_record.single.producer_sequence import StoredSequence as StoredSequence
    from ariane_record.single.properties import decode_properties as decode_properties
    from ariane_record.single.properties import encode_properties as encode_properties
    from ariane_record.single.record_copy import encode_block as encode_block
else:
    from ariane_record.public_names import found as __getattr__  # noqa: F401 - as well.
    from ariane_record.public_names import listed as __all__  # noqa: F401 - Python looks for it.
    from ariane_record.public_names import names as __dir__  # noqa: F401 - as well.
