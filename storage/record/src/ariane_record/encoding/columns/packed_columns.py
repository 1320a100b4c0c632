"""Large bodies of message columns, compressed; see ``compression`` for the formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ariane_record.encoding.columns.arrow_texts import bounds_of, lengths_of, octets_of
from ariane_record.encoding.columns.message_columns import MessageColumns
from ariane_record.single.compression import Compression, body_compressor


class ColumnPacking:
    """Compresses the large bodies of columns, and leaves the others."""

    def __init__(self, kind: Compression, level: int, *, size_bytes_min: int) -> None:
        """Choose the format.

        Args:
            kind: The format, or ``NONE``.
            level: From 1, fast, to 9, small.
            size_bytes_min: Smaller bodies are not compressed.

        Raises:
            CodecMissing: The library of the format is not installed.
        """
        self._system_flag = kind.system_flag
        self._size_bytes_min = size_bytes_min
        self._compress: Callable[[Any], bytes] | None = None
        if kind is not Compression.NONE:
            self._compress = body_compressor(kind, level)

    @property
    def is_off(self) -> bool:
        """Whether no body is ever compressed."""
        return self._compress is None

    def packed(self, messages: MessageColumns) -> MessageColumns:
        """The messages with large bodies compressed, except bodies that would grow.

        The codec is called once for each large body, from C; all other work is done by column.

        Args:
            messages: Messages without compression; their bodies together below 2 GiB.
        """
        if self._compress is None:
            return messages
        lengths = lengths_of(messages.body)
        rows = np.flatnonzero(lengths >= self._size_bytes_min)
        if not len(rows):
            return messages
        bounds = bounds_of(messages.body)
        octets = octets_of(messages.body).data
        spans = map(slice, bounds[rows].tolist(), bounds[rows + 1].tolist())
        bodies = np.fromiter(map(self._compress, map(octets.__getitem__, spans)), object, len(rows))
        smaller = np.fromiter(map(len, bodies), np.int64, len(rows)) < lengths[rows]
        rows, bodies = rows[smaller], bodies[smaller]
        is_packed = np.zeros(len(lengths), np.bool_)
        is_packed[rows] = True
        return replace(
            messages,
            body=pc.replace_with_mask(
                messages.body, pa.array(is_packed), pa.array(bodies, messages.body.type)
            ),
            system_flag=is_packed * np.int32(self._system_flag),
        )
