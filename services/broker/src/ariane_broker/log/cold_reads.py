"""Reads of what is not in memory: the loop does not wait for the disk, a thread does.

::

    loop     | read: cold |  sends, live readers, ...   | read: there |
                   |                                      ^
    thread         +--> the bytes come from the disk -----+--> and those behind them

Whether bytes are cold, and what is done with them, is decided on the loop; a thread only brings
them into memory. So nothing can change between a read and what follows from it, and a segment that
is deleted meanwhile is missing in the read that begins anew.

Each reader has a few fetches at a time, so that one with a deep backlog leaves the disk to others.
For a reader that goes through a file in order, it is read ahead: by more, the longer that lasts.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Executor
from typing import Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from ariane_broker.log.statistics import BrokerStatistics
from ariane_servicekit.running.turns import EXAMINED_MAX, TURN_S_MAX
from ariane_storage.disk.cold import IN_MEMORY, BytesCold

THREAD_COUNT: Final = 8
"""Fetches at a time, of all readers."""

FETCHES_OF_READER_MAX: Final = 2
"""Fetches at a time of one reader, such as a consumer group."""

AHEAD_BYTES_MIN: Final = 256 << 10
AHEAD_BYTES_MAX: Final = 8 << 20
"""Bytes that are read ahead for a reader that goes in order. A fast disk is kept at work while the
consumer gets what was read before."""

QUERIES: Final = "queries"
"""The reader that all questions of people and tools are for the limit."""

DELAYED: Final = "delayed messages"
"""The reader that delivery of delayed messages is for the limit."""

_SPARSE_SHARE: Final = 64
"""A reader that wants less than that part of what it passes has nothing read ahead."""

_STREAMS_MAX: Final = 4096

ResultT = TypeVar("ResultT")


class _Stream(NamedTuple):
    """How far a reader has come in a file, and how many bytes were read ahead of it."""

    begin: int
    end: int
    ahead_bytes: int


class ColdReads:
    """Fetches what reads of the loop have not found in memory."""

    def __init__(self, threads: Executor, statistics: BrokerStatistics) -> None:
        self._threads = threads
        self._statistics = statistics
        self._rooms: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._fetches: dict[Hashable, asyncio.Task[None]] = {}
        self._coming: dict[Hashable, asyncio.Task[None]] = {}
        self._streams: OrderedDict[Hashable, _Stream] = OrderedDict()

    async def run(
        self, reader: str, read: Callable[[], ResultT], *, stream: Hashable = None
    ) -> ResultT:
        """Read on the loop; begin anew each time that bytes were missing, once they are there.

        Args:
            reader: Who reads, for the limit: a consumer group, or a kind of work.
            read: Reads, and changes nothing until it has all bytes.
            stream: What the reader goes through in order; None if it does not.
        """
        while True:
            try:
                with IN_MEMORY:
                    return read()
            except BytesCold as cold:
                missing = cold
            await self.fetch(reader, missing, stream)

    async def in_turns(
        self, reader: str, work: Iterable[ResultT | BytesCold | None]
    ) -> list[ResultT]:
        """Do work in turns of the loop (see ``ariane_servicekit.in_turns``), which may say cold.

        Args:
            reader: Who reads, for the limit.
            work: Yields once for each thing examined: a result, None, or what must be fetched
                before it goes on.
        """
        clock = asyncio.get_running_loop().time
        found: list[ResultT] = []
        examined, end_s = 0, clock() + TURN_S_MAX
        for result in work:
            if isinstance(result, BytesCold):
                await self.fetch(reader, result)
            elif result is not None:
                found.append(result)
            examined += 1
            if examined >= EXAMINED_MAX or clock() >= end_s:
                await asyncio.sleep(0)
                examined, end_s = 0, clock() + TURN_S_MAX
        return found

    async def fetch(self, reader: str, cold: BytesCold, stream: Hashable = None) -> None:
        """Wait until bytes are in memory; see ``begin``."""
        await asyncio.shield(self.begin(reader, cold, stream))

    def begin(self, reader: str, cold: BytesCold, stream: Hashable = None) -> asyncio.Task[None]:
        """Begin to bring bytes into memory; who needs them waits for the task, and never ends it.

        Args:
            reader: Who reads, for the limit.
            cold: What was not in memory.
            stream: What the reader goes through in order, such as a queue; None if it does not.
        """
        key = (reader, id(cold.file), cold.begin, cold.end)
        task = self._fetches.get(key)
        if task is None:
            ahead_bytes = 0 if stream is None else self._ahead((reader, stream), cold)
            task = asyncio.create_task(self._fetch(reader, cold, ahead_bytes))
            self._fetches[key] = task
            task.add_done_callback(lambda _: self._fetches.pop(key))
        if stream is not None:
            self._coming[reader, stream] = task
            task.add_done_callback(lambda _: self._coming.pop((reader, stream), None))
        return task

    def coming(self, reader: str, stream: Hashable) -> asyncio.Task[None] | None:
        """What is being fetched for a reader that goes through something in order, or None.

        To read before it is there would only copy what is in memory already, and find the rest
        missing again.
        """
        return self._coming.get((reader, stream))

    async def _fetch(self, reader: str, cold: BytesCold, ahead_bytes: int) -> None:
        room = self._rooms.get(reader)
        if room is None:
            room = self._rooms[reader] = asyncio.Semaphore(FETCHES_OF_READER_MAX)
        async with room:
            self._statistics.cold_fetch_count += 1
            self._statistics.cold_bytes += sum(cold.sizes)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, cold.fetch, ahead_bytes)

    def _ahead(self, reader: Hashable, cold: BytesCold) -> int:
        """How much to read ahead: nothing for one that leaps, else twice as much as before."""
        place = (reader, id(cold.file))
        begin, end, wanted = cold.begin, cold.end, sum(cold.sizes)
        known = self._streams.pop(place, None)
        ahead = 0
        if known is not None and wanted * _SPARSE_SHARE >= end - begin:
            near = known.end + 2 * known.ahead_bytes + AHEAD_BYTES_MAX
            if known.end <= begin <= near:
                ahead = min(AHEAD_BYTES_MAX, max(AHEAD_BYTES_MIN, 2 * known.ahead_bytes))
            elif known.begin <= begin < known.end:
                ahead = known.ahead_bytes
        self._streams[place] = _Stream(begin, end, ahead)
        if len(self._streams) > _STREAMS_MAX:
            self._streams.popitem(last=False)
        return ahead
