"""Filters: messages a second that are gone through, beside reading all of them.

    .venv/bin/python -m bench.store.filters [--pairs 5] [--quick]

A store of flights is read from end to end, as the broker reads for pulls: unfiltered, by a tag
that one message in a hundred has, and by a condition over two properties. Uploaded filters judge
what was read unfiltered in a jailed worker each, as a FilterServer has them: the same condition as
Python source, and WebAssembly that looks at the first byte of each body.

Two rows ask whether a bit for each message and subscription should be kept, so that a condition is
judged once, when a message is appended, and not at each read. Such bits cost reading no less than
entries with a tag do; so a tag that the same messages have stands for them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import wasmtime

from ariane_broker.filters.expression import FilterExpression, FilterLanguage
from ariane_broker.filters.filter import filter_for
from ariane_filter.jail import limits
from ariane_filter.jail.process import JailLauncher
from ariane_filter.jail.worker_handle import WorkerHandle
from ariane_record.decoding.columns import decode_columns
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_sql92 import compile_condition
from ariane_storage import Store, StoreConfig
from ariane_storage.reading.filter import Filter
from bench.measure import Paired, Row, paired, program

CONFIG = StoreConfig(
    segment_bytes=1 << 27, retention_ms=0, index_slots=500_000, index_items=2_000_000
)
BATCH = 1000
ORIGINS = ("JFK", "LGA", "EWR")
CONDITION = "origin = 'JFK' AND dep_delay > 60"
RARE = "dep_delay IN ('-20', '80')"
"""What the messages with the rare tag fulfil, and no other."""

SQL_GOAL = 200.0
"""Thousands of conditions that a core should judge a second."""

UPLOADED_GOAL = 100.0
"""Thousands of messages that a worker with uploaded code should judge a second."""


PYTHON = b"""
def matches(message):
    properties = message.properties
    return properties["origin"] == "JFK" and int(properties["dep_delay"]) > 60
"""

WASM = """
(module
  (memory (export "memory") 1)
  (func (export "allocate") (param $size i32) (result i32)
    (drop (memory.grow (i32.add (i32.const 1) (i32.div_u (local.get $size) (i32.const 65536)))))
    (i32.const 65536))
  (func (export "filter") (param $batch i32) (param $size i32) (result i32)
    (local $count i32) (local $i i32) (local $entry i32)
    (local.set $count (i32.load (local.get $batch)))
    (loop $next
      (local.set $entry
        (i32.add (i32.add (local.get $batch) (i32.const 4))
          (i32.mul (local.get $i) (i32.const 16))))
      (i32.store8
        (i32.add (i32.add (local.get $batch) (i32.const 4))
          (i32.add (i32.mul (local.get $count) (i32.const 16)) (local.get $i)))
        (i32.eqz (i32.load8_u (i32.add (local.get $batch) (i32.load offset=8 (local.get $entry))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (local.get $count))))
    (i32.const 0)))
"""


def flights(first: int, count: int) -> BlockEncoder:
    """Flights of 256 bytes each; one in a hundred is tagged as an arrival."""
    encoder = BlockEncoder("flights", size_bytes_max=64 << 20)
    for number in range(first, first + count):
        encoder.add(
            bytes(256),
            tag="arrived" if number % 100 == 0 else "departed",
            keys=(f"key-{number:08}",),
            unique_id=f"7F0000010000000000000000{number:08X}",
            properties={
                "origin": ORIGINS[number % 3],
                "dest": "BOS",
                "carrier": "UA",
                "dep_delay": str(number % 200 - 20),
            },
            born_timestamp_ms=1_700_000_000_000,
        )
    return encoder


def read(store: Store, wanted: Filter | None) -> list[tuple[bytes, np.ndarray]]:
    """All that is wanted, in chunks: records and sizes."""
    chunks, position = [], 0
    end = store.queue_bounds("flights", 0)[1]
    while position < end:
        found = store.read_queue(
            "flights", 0, position, max_count=4096, max_bytes=2 << 20, wanted=wanted
        )
        chunks.append((b"".join(found.chunks), found.sizes))
        position = found.next_queue_offset
    return chunks


def row(
    work: str,
    result: Paired,
    against: str,
    count: int,
    *,
    goal: float | None = None,
    figure_goal: float | None = None,
) -> Row:
    """Thousands of messages a second, gone through."""
    return Row(
        work=work,
        ours=count / result.seconds / 1e3,
        unit="k/s",
        against=against,
        theirs=count / result.limit_seconds / 1e3,
        ratio=result.ratio,
        ratio_min=result.ratio_min,
        ratio_max=result.ratio_max,
        pairs=result.pairs,
        goal=goal,
        figure_goal=figure_goal,
    )


def uploaded_row(
    work: str,
    module: limits.FilterModule,
    chunks: list[tuple[bytes, np.ndarray]],
    unfiltered: Callable[[], object],
    *,
    pairs: int,
) -> Row:
    """A jailed worker that judges what was read."""
    with asyncio.Runner() as runner:
        worker = runner.run(
            WorkerHandle.start(
                module, limits.JailLimits(), launch=JailLauncher(), monotonic=time.monotonic
            )
        )

        async def judge() -> None:
            for records, sizes in chunks:
                await worker.judge(records, sizes)

        count = sum(len(sizes) for _, sizes in chunks)
        result = paired(lambda: runner.run(judge()), unfiltered, pairs=pairs)
        runner.run(worker.end())
    return row(work, result, "reading all", count, figure_goal=UPLOADED_GOAL)


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """All rows."""
    count = 50_000 if quick else 200_000
    language = limits.FilterLanguage
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder), CONFIG) as store:
        for first in range(0, count, BATCH):
            store.append(flights(first, BATCH).finish(), 0)
            store.keeping.prepare_next_segment()
        tag = filter_for(FilterExpression(text="arrived"))
        sql = filter_for(FilterExpression(FilterLanguage.SQL92, CONDITION))
        chunks = read(store, None)
        rare = filter_for(FilterExpression(FilterLanguage.SQL92, RARE))
        same = sum(len(sizes) for _, sizes in read(store, rare))
        assert same == sum(len(sizes) for _, sizes in read(store, tag)) == count // 100

        def unfiltered() -> object:
            return read(store, None)

        def judge(text: str) -> None:
            condition = compile_condition(text)
            for records, sizes in chunks:
                condition.mask(decode_columns(records, sizes).properties)

        def judge_then_read() -> None:
            judge(RARE)
            read(store, tag)

        measured = [
            row(
                "reads by a tag of 1 % of the messages",
                paired(lambda: read(store, tag), unfiltered, pairs=pairs),
                "reading all",
                count,
                goal=3.0,
            ),
            row(
                "reads by a condition over two properties",
                paired(lambda: read(store, sql), unfiltered, pairs=pairs),
                "reading all",
                count,
            ),
            row(
                "the condition alone, columns taken apart",
                paired(lambda: judge(CONDITION), unfiltered, pairs=pairs),
                "reading all",
                count,
                figure_goal=SQL_GOAL,
            ),
            row(
                "a condition of 1 % judged at the append, read once by its bits",
                paired(judge_then_read, lambda: read(store, rare), pairs=pairs),
                "judged at the read",
                count,
            ),
            row(
                "a condition of 1 % read again by its bits",
                paired(lambda: read(store, tag), lambda: read(store, rare), pairs=pairs),
                "judged at the read",
                count,
            ),
        ]
        for name, code in (
            ("Python", limits.FilterModule(language.PYTHON, PYTHON)),
            ("WebAssembly", limits.FilterModule(language.WASM, bytes(wasmtime.wat2wasm(WASM)))),
        ):
            work = f"a jailed worker with {name}"
            measured.append(uploaded_row(work, code, chunks, unfiltered, pairs=pairs))
    return measured


if __name__ == "__main__":
    program("filters", __doc__, rows, pairs=5)
