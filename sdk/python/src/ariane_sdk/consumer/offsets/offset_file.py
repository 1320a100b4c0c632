"""The offsets of a broadcasting consumer, in a file of the client in RocketMQ's format.

::

    ~/.ariane_offsets/<host>@<instance>/<group>/offsets.json       the newest
                                                offsets.json.bak   the one before
                                                offsets.lock       held while in use

    {"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:12},
     "logEpochTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:5203867203857265291}}

RocketMQ writes queues as keys without quotes (its JSON library does), which is not JSON. The same
is written here, and read with or without blanks. The second table is our addition, of the same
shape, and may be missing: the epoch of the broker's log when each offset was read, by which a
broker that has lost its last messages since is detected. A file is replaced as a whole: written
beside, flushed, renamed.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Final, Self

from ariane_sdk.client.caution import NO_CAUTION, Caution, InWork
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.errors import CallError, OffsetFileDamaged, OffsetFileInUse
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.disk import Disk, SystemDisk
from ariane_sdk.runtime.log import logger

FOLDER_DEFAULT: Final = ".ariane_offsets"
FILE_NAME: Final = "offsets.json"

_ENTRY = r'\{[^{}]*\}\s*:\s*"?-?\d+"?'
_ENTRIES: Final = rf"\{{\s*((?:{_ENTRY}\s*(?:,\s*{_ENTRY}\s*)*)?)\}}\s*"
_TABLES: Final = re.compile(
    rf'\s*\{{\s*"offsetTable"\s*:\s*{_ENTRIES}'
    rf'(?:,\s*"logEpochTable"\s*:\s*{_ENTRIES})?\}}\s*'
)
_QUEUE_AND_NUMBER: Final = re.compile(r'(\{[^{}]*\})\s*:\s*"?(-?\d+)"?')
_UNSAFE: Final = re.compile(r"[^%+A-Za-z0-9@._-]")


class OffsetFile:
    """Keeps consumer offsets of one group of this client in a file."""

    knows_all = True

    def __init__(
        self, path: Path, lock: IO[bytes], offsets: dict[MessageQueue, QueuePosition], disk: Disk
    ) -> None:
        """Use the file that ``open`` has opened."""
        self.path = path
        """The file."""
        self._disk = disk
        self._lock = lock
        self._offsets = offsets
        self._writing = asyncio.Lock()

    @classmethod
    def open(
        cls, folder: Path | None, instance_name: str, group: str, disk: Disk | None = None
    ) -> Self:
        """Open the file of a group, or begin a new one.

        Args:
            folder: The folder of all files; ``~/.ariane_offsets`` if not given.
            instance_name: Distinguishes consumers of one host that have the same group.
            group: The consumer group.
            disk: For tests.

        Raises:
            OSError: The disk refuses.
            OffsetFileDamaged: Neither the file nor the one before can be read.
            OffsetFileInUse: Another consumer uses it.
        """
        host = socket.gethostname().partition(".")[0] or "localhost"
        client = _UNSAFE.sub("_", f"{host}@{instance_name}")
        # Not every system has "|" in names of files, and no group has "+".
        own = _UNSAFE.sub("_", group.replace("|", "+"))
        path = (folder or Path.home() / FOLDER_DEFAULT) / client / own
        path /= FILE_NAME
        disk = disk or SystemDisk()
        try:
            lock = disk.lock(path.with_name("offsets.lock"))
        except BlockingIOError:
            raise OffsetFileInUse(
                f"another consumer uses {path}: give each its own instance_name"
            ) from None
        try:
            return cls(path, lock, _load(path, disk), disk)
        except BaseException:
            lock.close()
            raise

    async def load(
        self,
        broker: BrokerRoute,  # noqa: ARG002 - as the protocol has it; the file has all brokers.
        queues: Sequence[MessageQueue],
    ) -> dict[MessageQueue, QueuePosition]:
        """The offsets in the file."""
        return {queue: self._offsets[queue] for queue in queues if queue in self._offsets}

    async def kept(
        self,
        broker: BrokerRoute,  # noqa: ARG002 - as the protocol has it; the file has all brokers.
        queue: MessageQueue,
    ) -> int | None:
        """The offset in the file."""
        known = self._offsets.get(queue)
        return None if known is None else known.queue_offset

    async def store(
        self,
        broker: BrokerRoute,  # noqa: ARG002 - as the protocol has it; the file has all brokers.
        offsets: Mapping[MessageQueue, QueuePosition],
        *,
        durable: bool = False,  # noqa: ARG002 - every store is forced to disk.
        last: bool = False,  # noqa: ARG002 - likewise.
        back: Collection[MessageQueue] = (),  # noqa: ARG002 - no other consumer has the file.
    ) -> dict[MessageQueue, CallError]:
        """Replace the file by one with these offsets.

        Raises:
            CallError: The disk failed; the file is unchanged.
        """
        # A cancelled caller does not stop the write: the next write waits for it.
        await asyncio.shield(self._write(offsets))
        return {}

    async def has_any(
        self,
        broker: BrokerRoute,  # noqa: ARG002 - as the protocol has it; the file has all brokers.
        queues: Sequence[MessageQueue],
    ) -> bool:
        """Whether the file has an offset in a topic of the queues, also at other brokers."""
        topics = {queue.topic for queue in queues}
        return any(kept.topic in topics for kept in self._offsets)

    async def begin(
        self, broker: BrokerRoute, offsets: Mapping[MessageQueue, QueuePosition]
    ) -> None:
        """Replace the file by one that has these offsets where it had none."""
        fresh = {queue: at for queue, at in offsets.items() if queue not in self._offsets}
        if fresh:
            await self.store(broker, fresh)

    def caution_of(self, queue: MessageQueue) -> Caution:  # noqa: ARG002 - as for any keeping.
        """No advice: brokers do not track broadcasting consumers."""
        return NO_CAUTION

    def note_cut(self, queue: MessageQueue, kept: QueuePosition) -> None:
        """Set the offset to the present end of consumed messages; stored with the next store."""
        known = self._offsets.get(queue)
        if known is not None and known.log_epoch != kept.log_epoch:
            queue_offset = min(known.queue_offset, kept.queue_offset)
            self._offsets[queue] = QueuePosition(queue_offset, kept.log_epoch)

    async def report(
        self, broker: BrokerRoute, queue: MessageQueue, position: QueuePosition, in_work: InWork
    ) -> CallError | None:
        """Store the offset; no broker needs a report."""
        del in_work
        refused = await self.store(broker, {queue: position})
        return refused.get(queue)

    async def close(self) -> None:
        """Release the file, once no write is in progress."""
        async with self._writing:
            self._lock.close()

    async def _write(self, offsets: Mapping[MessageQueue, QueuePosition]) -> None:
        """Replace the file, after writes in progress."""
        async with self._writing:
            table = {**self._offsets, **offsets}
            replace = partial(self._disk.replace, backup=_backup_of(self.path))
            try:
                await asyncio.to_thread(replace, self.path, encode_offsets(table))
            except OSError as error:
                raise CallError(
                    f"{self.path} cannot be written: {error}", retriable=True
                ) from error
            self._offsets = table


def encode_offsets(offsets: Mapping[MessageQueue, QueuePosition]) -> str:
    """The text of a file."""
    queue_offsets = {queue: position.queue_offset for queue, position in offsets.items()}
    log_epochs = {queue: each.log_epoch for queue, each in offsets.items() if each.log_epoch}
    tables = {"offsetTable": queue_offsets}
    if log_epochs:
        tables["logEpochTable"] = log_epochs
    encoded = (f'"{name}":{{{_encode_numbers(table)}}}' for name, table in tables.items())
    return "{" + ",".join(encoded) + "}"


def _encode_numbers(numbers: Mapping[MessageQueue, int]) -> str:
    entries = (
        json.dumps(
            {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic},
            separators=(",", ":"),
            ensure_ascii=False,
        )
        + f":{number}"
        for queue, number in sorted(numbers.items())
    )
    return ",".join(entries)


def decode_offsets(text: str) -> dict[MessageQueue, QueuePosition]:
    """The offsets of a file, ours or RocketMQ's.

    Raises:
        ValueError: The text is not such a file.
    """
    tables = _TABLES.fullmatch(text)
    if tables is None:
        raise ValueError("no table of offsets, or cut short")
    log_epochs = _decode_numbers(tables[2] or "")
    return {
        queue: QueuePosition(queue_offset, log_epochs.get(queue, 0))
        for queue, queue_offset in _decode_numbers(tables[1]).items()
    }


def _decode_numbers(entries: str) -> dict[MessageQueue, int]:
    numbers = {}
    for encoded, number in _QUEUE_AND_NUMBER.findall(entries):
        queue = json.loads(encoded)
        try:
            key = MessageQueue(queue["topic"], queue["brokerName"], int(queue["queueId"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{encoded} is no queue") from error
        numbers[key] = int(number)
    return numbers


def _load(path: Path, disk: Disk) -> dict[MessageQueue, QueuePosition]:
    """The newest generation that can be read; empty only if there was never one."""
    backup = _backup_of(path)
    troubles = []
    for generation in (path, backup):
        try:
            offsets = decode_offsets(disk.read(generation))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            troubles.append(f"{generation}: {error}")
            logger.warning("offsets cannot be read from %s: %s", generation, error)
        else:
            if troubles:
                logger.warning("going on with the offsets before, of %s", generation)
                # The next store would make the damaged file the backup, in place of this good one.
                disk.move(path, path.with_name(path.name + ".damaged"))
            return offsets
    if troubles:
        raise OffsetFileDamaged(
            f"{'; '.join(troubles)}. Without it the consumer would begin anew: repair the file, or"
            f" delete {path} and {backup.name} to let `start` decide"
        )
    return {}


def _backup_of(path: Path) -> Path:
    return path.with_name(path.name + ".bak")
