"""A process that appends numbered messages to a store, and says which are acknowledged.

The body of every message tells its number in the order of the log, its queue and its queue offset,
so that a reader can tell a hole from a lost tail, and a message from one in the wrong place.
"""

from __future__ import annotations

import gc
import os
import random
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ariane_record.decoding.columns import decode_columns
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import FlushMode, Store, StoreConfig

QUEUES = tuple((topic, queue_id) for topic in ("orders", "payments") for queue_id in range(3))


def config(mode: FlushMode) -> StoreConfig:
    """Small files, so that segments, queue files and index files roll often."""
    return StoreConfig(
        segment_bytes=1 << 18,
        consume_queue_file_entries=200,
        index_slots=64,
        index_items=512,
        record_bytes_max=1 << 16,
        derived_interval_ms=20,
        flush_interval_ms=15,
        flush_mode=mode,
        disk_clean_ratio=0.97,
        disk_force_ratio=0.98,
        disk_refuse_ratio=0.99,
    )


def body_of(number: int, topic: str, queue_id: int, queue_offset: int) -> bytes:
    """What message ``number`` of the log says, padded to a length of its own."""
    text = f"{number} {topic} {queue_id} {queue_offset} "
    return text.encode().ljust(60 + number * 37 % 900, b".")


@dataclass
class WriterProcess:
    """A forked writer."""

    pid: int
    """Its process."""
    pipe: int
    """The descriptor that its lines are read from."""
    acknowledged: int = 0
    """How many messages of the log it said were acknowledged."""

    def read_line(self) -> bool:
        """Wait for the next acknowledgement; False when the writer ended."""
        line = os.read(self.pipe, 9)
        if len(line) == 9:
            self.acknowledged = int(line)
            return True
        return False

    def read_waiting(self) -> None:
        """Read what it has said by now."""
        while select.select([self.pipe], [], [], 0)[0] and self.read_line():
            pass

    def kill(self) -> None:
        """End it, after reading what it still managed to say."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        while self.read_line():
            pass
        os.close(self.pipe)


def start_writer(root: Path, mode: FlushMode, seed: int) -> WriterProcess:
    """Fork a process that appends until it is killed or its disk fails."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        # What earlier tests of this process left behind stays: grpcio's objects among it do not
        # survive a fork, and end the child when they are collected.
        gc.freeze()
        os.close(reading)
        try:
            _write_for_ever(root, mode, seed, writing)
        finally:
            os._exit(0)
    os.close(writing)
    return WriterProcess(pid, reading)


def _write_for_ever(root: Path, mode: FlushMode, seed: int, pipe: int) -> None:
    chance = random.Random(seed)
    with Store.open(root, config(mode)) as store:
        number = sum(store.queue_bounds(*queue)[1] for queue in QUEUES)
        flushed_number = number
        while True:
            topic, queue_id = chance.choice(QUEUES)
            _, queue_offset = store.queue_bounds(topic, queue_id, readable_end=store.max_offset)
            encoder = BlockEncoder(topic, size_bytes_max=1 << 17)
            for step in range(chance.choice((1, 2, 7, 30))):
                encoder.add(
                    body_of(number + step, topic, queue_id, queue_offset + step),
                    tag=f"tag{step}",
                    keys=(f"key{number + step}",),
                    born_timestamp_ms=1,
                )
            number += encoder.count
            store.append(encoder.finish(), queue_id)
            if mode is FlushMode.SYNC:
                store.flush()
                flushed_number = number
            else:
                store.keeping.flush_due()
                if store.flushed_offset == store.max_offset:
                    flushed_number = number
            if chance.random() < 0.1:
                store.flush_derived()
            if chance.random() < 0.1:
                store.keeping.prepare_next_segment()
            os.write(pipe, b"%09d" % flushed_number)


def numbers_in(store: Store) -> Iterator[int]:
    """The number of every readable message; checks that each lies where it says.

    Raises:
        AssertionError: A message is not what was written at its place.
    """
    for topic, queue_id in QUEUES:
        position, end = store.queue_bounds(topic, queue_id)
        while position < end:
            read = store.read_queue(topic, queue_id, position, max_count=500, max_bytes=1 << 20)
            columns = decode_columns(b"".join(read.chunks), read.sizes)
            assert list(columns.queue_offset) == list(range(position, position + read.count))
            for step, body in enumerate(columns.bodies()):
                number = int(body.split(b" ", 1)[0])
                assert body == body_of(number, topic, queue_id, position + step)
                yield number
            position = read.next_queue_offset
