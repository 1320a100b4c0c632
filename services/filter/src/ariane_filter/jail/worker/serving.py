"""The life of a worker behind the lock: one module, then batch after batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_filter.jail.frames import BATCH_HEAD, HEAD, MODULE_HEAD, Kind, text_frame
from ariane_filter.jail.worker.channel import Channel, ParentGone
from ariane_filter.jail.worker.judging import LoadedFilter, ModuleRefused, VerdictMissing
from ariane_record.decoding.columns import decode_columns
from ariane_record.errors import RecordCorrupted

_SIZE: Final = np.dtype("<i4")


def serve(channel: Channel, load: Callable[[bytes, int], LoadedFilter]) -> None:
    """Load the module of the first frame, and judge batches until the parent closes the channel.

    Args:
        channel: The channel to the parent.
        load: Makes a filter of a module and the fuel for a message.
    """
    try:
        _, payload = _frame(channel)
        (fuel_per_message,) = MODULE_HEAD.unpack_from(payload)
        try:
            loaded = load(payload[MODULE_HEAD.size :], fuel_per_message)
        except ModuleRefused as error:
            channel.write(text_frame(Kind.INVALID, str(error)))
            return
        channel.write(HEAD.pack(Kind.READY, 0))
        while True:
            channel.write(_answer(loaded, _frame(channel)[1]))
    except ParentGone:
        return


def _named(records: bytes, sizes: NDArray[np.int32], position: int | None) -> str:
    """The name of a message by queue offset: its position in a batch is of no use to people."""
    if position is None:
        return ""
    message = decode_columns(records, sizes).message(position)
    return f"message at {message.queue_offset} of queue {message.queue_id}: "


def _frame(channel: Channel) -> tuple[int, bytes]:
    kind, length = HEAD.unpack(channel.read(HEAD.size))
    return kind, channel.read(length)


def _answer(loaded: LoadedFilter, payload: bytes) -> bytes:
    (count,) = BATCH_HEAD.unpack_from(payload)
    sizes = np.frombuffer(payload, _SIZE, count, BATCH_HEAD.size)
    records = payload[BATCH_HEAD.size + sizes.nbytes :]
    try:
        mask = loaded.judge(records, sizes)
    except RecordCorrupted as error:
        return text_frame(Kind.CORRUPT, str(error))
    except VerdictMissing as error:
        return text_frame(Kind.RAISED, f"{_named(records, sizes, error.position)}{error}")
    return HEAD.pack(Kind.MASK, len(mask)) + mask
