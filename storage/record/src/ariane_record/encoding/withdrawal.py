"""Removing one message from a block that is still being built."""

from __future__ import annotations

from ariane_record.encoding.block import BlockEncoder
from ariane_record.layout import PRODUCER_PROPERTIES_BYTES_MAX
from ariane_record.single.producer_sequence import EMPTY_SEQUENCE, SEQUENCE_BYTES

_PARTS_PER_RECORD = 6


def take_back(encoder: BlockEncoder, position: int) -> int:
    """Remove one record; later ones move up. Rare, so it may cost a walk over the block.

    Args:
        encoder: The encoder of an unfinished block.
        position: The record, 0 for the first.

    Returns:
        Bytes of the record; 0 if it cannot be removed, because it is the first of a sequenced
        block and the next one has no room for the sequence.
    """
    # ruff: noqa: SLF001 - a part of the encoder, apart because it is rarely needed.
    moves_sequence = encoder._sequenced and position == 0 and encoder.count > 1
    parts = encoder._parts
    if moves_sequence:
        properties_bytes = int.from_bytes(parts[_PARTS_PER_RECORD + 3]) + SEQUENCE_BYTES
        if properties_bytes > PRODUCER_PROPERTIES_BYTES_MAX:
            return 0
    size = encoder._sizes.pop(position)
    del parts[position * _PARTS_PER_RECORD : (position + 1) * _PARTS_PER_RECORD]
    encoder.size_bytes -= size
    if moves_sequence:
        header, body, topic, _, encoded, checksum = parts[:_PARTS_PER_RECORD]
        grown = encoder._sizes[0] = encoder._sizes[0] + SEQUENCE_BYTES
        parts[:_PARTS_PER_RECORD] = (
            grown.to_bytes(4) + header[4:],
            body,
            topic,
            properties_bytes.to_bytes(2),
            EMPTY_SEQUENCE + encoded,
            checksum,
        )
        encoder.size_bytes += SEQUENCE_BYTES
    del encoder._tags[position]
    first_key = sum(encoder._key_counts[:position])
    key_count = encoder._key_counts.pop(position)
    del encoder._keys[first_key : first_key + key_count]
    return size
