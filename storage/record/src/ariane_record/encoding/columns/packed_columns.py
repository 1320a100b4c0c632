"""Large bodies of message columns, compressed; see ``compression`` for the formats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ariane_record.encoding.columns.arrow_texts import bounds_of, lengths_of, octets_of
from ariane_record.encoding.columns.message_columns import MessageColumns
from ariane_record.single.compression import BodyPacking


def packed_columns(messages: MessageColumns, packing: BodyPacking) -> MessageColumns:
    """The messages with large bodies compressed, except bodies that would grow.

    The codec is called once for each large body, from C; all other work is done by column.

    Args:
        messages: Messages without compression; their bodies together below 2 GiB.
        packing: The format.
    """
    if packing.is_off:
        return messages
    lengths = lengths_of(messages.body)
    rows = np.flatnonzero(lengths >= packing.size_bytes_min)
    if not len(rows):
        return messages
    bounds = bounds_of(messages.body)
    octets = octets_of(messages.body).data
    spans = map(slice, bounds[rows].tolist(), bounds[rows + 1].tolist())
    bodies = np.fromiter(map(packing.compress, map(octets.__getitem__, spans)), object, len(rows))
    smaller = np.fromiter(map(len, bodies), np.int64, len(rows)) < lengths[rows]
    rows, bodies = rows[smaller], bodies[smaller]
    is_packed = np.zeros(len(lengths), np.bool_)
    is_packed[rows] = True
    return replace(
        messages,
        body=pc.replace_with_mask(
            messages.body, pa.array(is_packed), pa.array(bodies, messages.body.type)
        ),
        system_flag=is_packed * np.int32(packing.system_flag),
    )
