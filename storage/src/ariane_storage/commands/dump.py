"""``ariane store dump``: every record of a store as an object."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from ariane_record import RecordFields, decode_record
from ariane_record.checksums.checksum import crc32
from ariane_record.control_characters import shown
from ariane_record.counted import counted
from ariane_record.errors import BodyDamaged
from ariane_record.layout import Host
from ariane_record.single.compression import original_body
from ariane_storage.commands.output import (
    EXIT_DAMAGED,
    folder_argument,
    format_option,
    one_line_errors,
    print_rows,
    progress_beside_output,
)
from ariane_storage.disk.os_disk import OsDisk
from ariane_storage.log.damage import Damage
from ariane_storage.log.scan import Ending, scan
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.offline.index_inspection import why_keys_may_be_missing
from ariane_storage.recovery.recovery import Progress, ProgressCallback

_TABLE_COLUMNS: Final = (
    *("commit_log_offset", "size", "topic", "queue_id", "queue_offset"),
    *("tags", "keys", "unique_id", "store_timestamp", "body_length"),
)


class QueueName(click.ParamType[tuple[str, int]]):
    """``TOPIC:ID``."""

    name = "TOPIC:ID"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Split at the last colon."""
        topic, _, queue_id = str(value).rpartition(":")
        if not topic or not queue_id.isdigit():
            self.fail(f"{value!r} is not TOPIC:ID, such as flights:0", param, ctx)
        return topic, int(queue_id)


class KeyName(click.ParamType[tuple[str, str]]):
    """``TOPIC:KEY``."""

    name = "TOPIC:KEY"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split at the first colon: no topic has one, a key may."""
        topic, _, key = str(value).partition(":")
        if not topic or not key:
            self.fail(f"{value!r} is not TOPIC:KEY, such as flights:N14228", param, ctx)
        return topic, key


_EXAMPLES: Final = """
\b
Examples:
  ariane store dump /var/lib/ariane/broker-a -o jsonl
  ariane store dump /var/lib/ariane/broker-a --queue flights:0 --max-count 10
  ariane store dump /var/lib/ariane/broker-a --key flights:N14228 -o json
"""


@click.command(name="dump", epilog=_EXAMPLES, short_help="Print the records of a store.")
@folder_argument
@format_option
@click.option(
    "--queue",
    type=QueueName(),
    help="Print the records of this consume queue instead of the whole log.",
)
@click.option(
    "--key",
    type=KeyName(),
    help="Print the records that the index finds for this key instead, newest first.",
)
@click.option(
    "--max-count",
    type=click.IntRange(min=1),
    help="Stop after this many records; no limit by default.",
)
@one_line_errors
def dump(
    folder: Path,
    output_format: str,
    queue: tuple[str, int] | None,
    key: tuple[str, str] | None,
    max_count: int | None,
) -> None:
    """Print every record of the closed store in DIR, in log order.

    Lengths and checksums of bodies are those of the decompressed body, as the producer sent it.
    Damaged ranges are skipped and reported on standard error. With --key, so is an index that
    may not lead to every record with that key. In both cases the exit status is 1.
    """
    if queue is not None and key is not None:
        raise click.UsageError("--queue and --key cannot be used together")
    damage: list[str] = []
    with ClosedStore(folder, OsDisk()) as store, progress_beside_output() as progress:
        if queue is not None:
            records = _of_queue(store, *queue, damage)
        elif key is not None:
            records = _of_key(store, *key, damage)
        else:
            records = _of_log(store, damage, progress)
        rows = map(record_row, islice(records, max_count))
        print_rows(rows, _TABLE_COLUMNS, output_format)
        damage += map(str, store.unreadable.found)
    for line in damage:
        click.echo(f"ariane store: {shown(line)}", err=True)
    if damage:
        raise SystemExit(EXIT_DAMAGED)


def _of_log(
    store: ClosedStore, damage: list[str], progress: ProgressCallback
) -> Iterator[memoryview]:
    begin = first = store.log.min_offset
    total = store.log.segments[-1].end - first if store.log.segments else 0
    for event in scan(store.log.walk(begin), begin):
        if isinstance(event, Damage):
            damage.append(
                f"damage from {event.begin} to {event.end}: {event.reason}{_place_of(store, event)}"
            )
        elif isinstance(event, Ending):
            if event.reason is not None:
                damage.append(f"torn tail at {event.commit_log_offset}: {event.reason}")
        else:
            places = event.places
            for begin, end in zip(places.starts.tolist(), places.ends.tolist(), strict=True):
                yield places.buffer[begin:end]
            progress(Progress("print the commit log", event.end - first, total))


def _place_of(store: ClosedStore, damage: Damage) -> str:
    """The file in which a damaged range begins, and the byte of it."""
    segment = store.log.segment_at(damage.begin)
    if segment is None:
        return ""
    return f" (commitlog/{segment.path.name}, byte {damage.begin - segment.start})"


def _of_queue(
    store: ClosedStore, topic: str, queue_id: int, damage: list[str]
) -> Iterator[memoryview]:
    if store.queues.find(topic, queue_id) is None:
        there = sorted(queue.queue_id for queue in store.queues.of_topic(topic))
        known = f"{topic} has {', '.join(map(str, there))}" if there else f"nor any of {topic}"
        raise click.UsageError(f"the store has no queue {topic}:{queue_id}; {known}")
    missing = 0
    for record in store.queue_records(topic, queue_id):
        if record is None:
            missing += 1
        else:
            yield record
    if missing:
        damage.append(f"{topic}:{queue_id}: no valid record for {counted(missing, 'place')} in it")


def _of_key(store: ClosedStore, topic: str, key: str, damage: list[str]) -> Iterator[memoryview]:
    missing = why_keys_may_be_missing(store)
    if missing:
        damage.append(missing)
    if store.index_fault:
        return
    for record in store.key_records(topic, key):
        message = decode_record(record, verify=False)
        if message.topic == topic and key in (message.unique_id, *message.keys):
            yield record


def record_row(record: memoryview) -> dict[str, Any]:
    """A valid record as an object of plain values."""
    message = decode_record(record, verify=False)
    row: dict[str, Any] = {
        "commit_log_offset": message.commit_log_offset,
        "size": len(record),
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "tags": message.tag,
        "keys": list(message.keys),
        "unique_id": message.unique_id,
        "message_group": message.message_group,
        "system_flag": message.system_flag,
        "flag": message.flag,
        "born_timestamp": message.born_timestamp_ms,
        "born_host": _host_text(message.born_host),
        "store_timestamp": message.store_timestamp_ms,
        "store_host": _host_text(message.store_host),
        "attempts": message.attempts,
        "prepared_transaction_offset": message.half_offset,
    }
    row |= body_facts(message)
    row["properties"] = message.properties
    return row


def _host_text(host: Host) -> str:
    address, port = host
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def body_facts(message: RecordFields) -> dict[str, Any]:
    """Length and CRC-32 of a body after decompression; None if it cannot be decompressed."""
    body: bytes | None
    try:
        body = original_body(message.body, message.system_flag)
    except BodyDamaged:
        body = None
    return {
        "body_length": None if body is None else len(body),
        "body_crc32": None if body is None else crc32(body),
        "stored_body_length": len(message.body),
    }
