"""Reads that take only what is in memory, for a thread that must not wait for the disk.

::

    the loop                             a thread beside it
    with IN_MEMORY:
        read  --> BytesCold  ----------> fetch: waits for the disk
    with IN_MEMORY:                          |
        read again  <------------------------+

The other thread only brings bytes into memory: it decides nothing, and the read begins anew. A file
system that cannot tell what is in memory reads as ever, and the caller waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

ResultT = TypeVar("ResultT")


class _InMemory(threading.local):
    """Whether this thread takes only what is in memory; a context in which it does."""

    only = False
    """Whether it does now."""

    def __enter__(self) -> None:
        self.only = True

    def __exit__(self, *_: object) -> None:
        self.only = False


IN_MEMORY: Final = _InMemory()
"""In this context, reads raise ``BytesCold`` where they would wait for the disk."""


class ColdFile(Protocol):
    """A file of which not all is in memory."""

    def fetch(self, positions: Sequence[int], sizes: Sequence[int], ahead_bytes: int) -> None:
        """Bring ranges into memory, and have the bytes behind them come. Blocks; any thread.

        Raises nothing: what the disk cannot read is found by the next read.
        """
        ...


class BytesCold(Exception):
    """Bytes of a file are not in memory; the read has had no effect."""

    def __init__(self, file: ColdFile, positions: Sequence[int], sizes: Sequence[int]) -> None:
        super().__init__("not in memory")
        self.file = file
        """The file."""
        self.positions = positions
        """The start of each range that was to be read."""
        self.sizes = sizes
        """Bytes of each."""

    @property
    def begin(self) -> int:
        """The first byte."""
        return min(self.positions)

    @property
    def end(self) -> int:
        """Behind the last byte."""
        return max(map(int.__add__, self.positions, self.sizes))

    def fetch(self, ahead_bytes: int = 0) -> None:
        """Bring the bytes into memory. Blocks; any thread.

        Args:
            ahead_bytes: So many of the bytes behind them are wanted soon; they are not waited for.
        """
        self.file.fetch(self.positions, self.sizes, ahead_bytes)


def warm(read: Callable[[], ResultT]) -> Generator[BytesCold, None, ResultT]:
    """Read only what is in memory; yields what must be fetched before it goes on.

    Args:
        read: Reads, and changes nothing until it has all bytes; called again after each fetch.
    """
    while True:
        try:
            with IN_MEMORY:
                return read()
        except BytesCold as cold:
            missing = cold
        yield missing


def each_warm(reads: Iterable[Callable[[], ResultT]]) -> Iterator[ResultT | BytesCold]:
    """The results of many reads, and before some of them what must be fetched (see ``warm``)."""
    for read in reads:
        yield (yield from warm(read))
