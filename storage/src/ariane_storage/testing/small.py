"""Small stores and blocks: files of a few kilobytes roll and fill up within a test."""

from __future__ import annotations

from collections.abc import Sequence

from ariane_record import RecordTable
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage.config import FlushMode, StoreConfig

BORN_MS = 1_699_999_999_000


def small_config(
    *, segment_bytes: int = 8192, flush_mode: FlushMode = FlushMode.ASYNC
) -> StoreConfig:
    """A store whose segments, queue files and index files hold few records."""
    return StoreConfig(
        segment_bytes=segment_bytes,
        consume_queue_file_entries=8,
        index_slots=16,
        index_items=40,
        flush_mode=flush_mode,
        record_bytes_max=4096,
        files_open_max=3,
        scan_entries_max=16,
    )


def block_of(
    topic: str,
    bodies: Sequence[bytes],
    *,
    tags: Sequence[str] = (),
    keys: Sequence[Sequence[str]] = (),
    unique_ids: Sequence[str] = (),
    system_flag: int = 0,
) -> RecordTable:
    """A block of messages; columns that are shorter than ``bodies`` leave the rest without."""
    encoder = BlockEncoder(topic, size_bytes_max=1 << 20)
    for place, body in enumerate(bodies):
        encoder.add(
            body,
            tag=tags[place] if place < len(tags) else "",
            keys=keys[place] if place < len(keys) else (),
            unique_id=unique_ids[place] if place < len(unique_ids) else "",
            system_flag=system_flag,
            born_timestamp_ms=BORN_MS,
        )
    return encoder.finish()
