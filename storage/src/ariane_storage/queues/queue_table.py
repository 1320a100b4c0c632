"""All consume queues of a store, by topic and queue id."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from ariane_storage.disk.disk import Disk
from ariane_storage.disk.unreadable_places import UnreadablePlaces
from ariane_storage.errors import IllegalQueue
from ariane_storage.queues.consume_queue import ConsumeQueue, add_all
from ariane_storage.queues.consume_queue_entry import Entries
from ariane_storage.queues.entry_files import QueueFiles, Unsynced
from ariane_storage.queues.open_files import OpenFiles

# RocketMQ's characters for topics; with them a name cannot leave the folder.
_TOPIC: Final = re.compile(r"[%|A-Za-z0-9_+-]{1,255}")
_QUEUE_ID_MAX: Final = 0x7FFFFFFF


def can_name_queue(topic: str, queue_id: int) -> bool:
    """Whether a topic and a queue id can name the folder of a queue."""
    return _TOPIC.fullmatch(topic) is not None and 0 <= queue_id <= _QUEUE_ID_MAX


@dataclass(frozen=True, slots=True)
class QueueSums:
    """Sums over all queues in the checkpoint, by which missing and older files are noticed."""

    queue_count: int
    """Queues that have entries in files."""
    entry_sum: int
    """Sum of the queue offsets that the files reach, and of the commit-log offsets behind their
    last records: files of an earlier topic may have as many entries."""


class QueueTable:
    """Finds queues, creates them at their first append, and writes them out."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        *,
        file_entries: int,
        open_max: int,
        writable: bool = True,
        unreadable: UnreadablePlaces | None = None,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._open_files = OpenFiles(
            disk, unreadable or UnreadablePlaces(), open_max=open_max, writable=writable
        )
        self.lock = threading.Lock()
        self._shared = QueueFiles(disk, self._open_files, file_entries, self.lock)
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        # The same: who asks for one topic, or lets it go, does not walk over all.
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        # These queues are hidden; the files of those given up are removed as well.
        self._leaving: list[ConsumeQueue] = []
        self._given_up: list[ConsumeQueue] = []
        # Kept after a failed write, for the next sync.
        self._unsynced = Unsynced()

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """All queues there are now."""
        return iter(tuple(self._queues.values()))

    def __len__(self) -> int:
        """Number of queues."""
        return len(self._queues)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue, or None if it never had a message."""
        return self._queues.get((topic, queue_id))

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """All queues of a topic."""
        return list(self._topics.get(topic, {}).values())

    def find_or_make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue, created if necessary; its files are created by the first write.

        Raises:
            IllegalQueue: The topic or the id cannot name a folder.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            if not can_name_queue(topic, queue_id):
                raise IllegalQueue(f"{topic!r}:{queue_id} cannot name the folder of a queue")
            folder = self._folder / topic / str(queue_id)
            queue = ConsumeQueue(self._shared, folder, topic, queue_id)
            self._show(queue)
        return queue

    def find_or_make_all(
        self, topics: Sequence[str], queue_ids: Sequence[int]
    ) -> list[ConsumeQueue]:
        """Queues side by side; see ``find_or_make``."""
        try:
            return list(map(self._queues.__getitem__, zip(topics, queue_ids, strict=True)))
        except KeyError:
            return list(map(self.find_or_make, topics, queue_ids))

    def _show(self, queue: ConsumeQueue) -> None:
        self._queues[queue.topic, queue.queue_id] = queue
        self._topics.setdefault(queue.topic, {})[queue.queue_id] = queue

    def _hide(self, queue: ConsumeQueue) -> None:
        del self._queues[queue.topic, queue.queue_id]
        of_topic = self._topics[queue.topic]
        del of_topic[queue.queue_id]
        if not of_topic:
            del self._topics[queue.topic]

    def append(self, queue: ConsumeQueue, entries: Entries, last_record_end: int) -> None:
        """Append entries to a queue."""
        with self.lock:
            queue.add(entries.tobytes(), last_record_end)

    def append_all(
        self, queues: Sequence[ConsumeQueue], entries: Sequence[bytes], ends: Sequence[int]
    ) -> None:
        """Append encoded entries to queues; each queue's last record ends at the given offset."""
        with self.lock:
            add_all(queues, entries, ends)

    def load(self, commit_log_end: int, *, keep_rest: bool = False) -> None:
        """Load the files of all queues, up to a commit-log offset known to be durable.

        Args:
            commit_log_end: Entries below are loaded.
            keep_rest: Leave the files unchanged, for readers.
        """
        for topic in self._disk.names(self._folder):
            for name in self._disk.names(self._folder / topic):
                if name.isascii() and name.isdigit() and _TOPIC.fullmatch(topic):
                    self.find_or_make(topic, int(name)).load(commit_log_end, keep_rest=keep_rest)

    def write_out(self, commit_log_end: int) -> QueueSums:
        """Durably write all entries of records below an offset. One thread at a time.

        Raises:
            OSError: The disk failed.
        """
        # Not empty if an earlier write has failed halfway.
        unsynced = self._unsynced
        # Before any write: a topic created again has files of the same names.
        self._remove_given_up(unsynced)
        self._unsynced = unsynced = unsynced.still_there(self._disk)
        for queue in self._with_files():
            queue.write_out(commit_log_end, unsynced)
        if unsynced.files or unsynced.folders:
            self._disk.sync(files=unsynced.files, folders=unsynced.folders)
            self._unsynced = Unsynced()
        return self.sums()

    def sums(self) -> QueueSums:
        """The sums of the files as they are now."""
        ends = [
            queue.written_offset + queue.written_record_end
            for queue in self._with_files()
            if queue.is_on_disk
        ]
        return QueueSums(len(ends), sum(ends))

    def _with_files(self) -> Collection[ConsumeQueue]:
        """All queues, and the hidden ones: their deletion may still be undone."""
        if not self._leaving:
            return tuple(self)
        return {id(queue): queue for queue in (*self._leaving, *self)}.values()

    def let_go(self, topics: Collection[str]) -> tuple[ConsumeQueue, ...]:
        """Hide the queues of some topics; their files stay.

        The appending thread.
        """
        found = tuple(chain.from_iterable(map(self.of_topic, dict.fromkeys(topics))))
        # In this order: a concurrent count of files misses none.
        self._leaving = [*self._leaving, *found]
        for topic in topics:
            for queue_id in self._topics.pop(topic, ()):
                del self._queues[topic, queue_id]
        return found

    def take_back(self, queues: Collection[ConsumeQueue]) -> None:
        """Show hidden queues again. The appending thread."""
        for queue in queues:
            self._show(queue)
        self._forget_leaving(queues)

    def give_up(self, queues: Collection[ConsumeQueue]) -> None:
        """Let the next ``write_out`` remove the files of hidden queues."""
        self._given_up = [*self._given_up, *queues]

    def _remove_given_up(self, unsynced: Unsynced) -> None:
        """Remove files; their names are durably gone once the folders are synced."""
        given_up = self._given_up
        if not given_up:
            return
        for queue in given_up:
            queue.remove()
        for topic in {queue.topic for queue in given_up}:
            folder = self._folder / topic
            if not self._disk.names(folder):
                self._disk.remove_folder(folder)
            unsynced.folders.update((folder, self._folder))
        self._forget_leaving(given_up)
        # Not earlier: steps that failed halfway must be repeated.
        self._given_up = []

    def _forget_leaving(self, queues: Collection[ConsumeQueue]) -> None:
        gone = set(queues)
        self._leaving = [queue for queue in self._leaving if queue not in gone]

    def remove(self, queues: Collection[ConsumeQueue]) -> None:
        """Delete some queues durably."""
        for queue in queues:
            self._hide(queue)
            queue.remove()
        for topic in {queue.topic for queue in queues}:
            folder = self._folder / topic
            if not self._disk.names(folder):
                self._disk.remove_folder(folder)
            else:
                self._disk.sync(folders=[folder])
        if queues:
            self._disk.sync(folders=[self._folder])

    def remove_all(self) -> None:
        """Delete every queue, to build them again."""
        self._queues.clear()
        self._topics.clear()
        self._open_files.close()
        self._disk.remove_folder(self._folder)
        self._disk.make_folders(self._folder)

    def close(self) -> None:
        """Close all files."""
        self._open_files.close()
