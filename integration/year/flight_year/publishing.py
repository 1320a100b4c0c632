"""Publishing the year as columns, and when each part of it was stored."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import pyarrow as pa
from flight_demo.events import FlightEvent
from flight_demo.stages import Stage

from ariane_sdk.sync import Producer

ROWS = 20_000
"""Messages handed to the producer at once; the next ones go when all of them are acknowledged."""

_SCHEMA = pa.schema(
    [
        ("tag", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("messageGroup", pa.string()),
        ("body", pa.binary()),
    ]
)


def publish_columns(
    producer: Producer, topic: str, events: Iterator[FlightEvent], count: int, stage: Stage
) -> int:
    """Publish the next `count` events in their order; return how many were acknowledged."""
    acknowledged = 0
    while batch := list(islice(events, min(ROWS, count - acknowledged))):
        # What else an event has, the properties of the demo's filters, the year does not need.
        tags, keys, groups, bodies, _ = zip(*batch, strict=True)
        table = pa.table([tags, [[key] for key in keys], groups, bodies], schema=_SCHEMA)
        producer.send_columns(topic, table)
        acknowledged += len(batch)
        stage.reach(stage.count + len(batch))
    return acknowledged


def moment_between() -> datetime:
    """Return a time with a millisecond of its own: what is stored later bears a later one."""
    now_ms = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 < now_ms + 3:
        time.sleep(0.001)
    return datetime.fromtimestamp((now_ms + 2) / 1000, UTC)
