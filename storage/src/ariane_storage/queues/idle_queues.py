"""The ends of queues whose messages are all deleted.

::

    idle-queues.json    {"queues": {"flights": {"0": 1200, "3": 77}}}

Consume queues are rebuilt from the log when their files are lost. A queue that retention has
emptied has no records there any more, and would start at 0 again: consumers at 1200 would see
offsets used twice. So before the last record of a queue is deleted, its end is written down here;
and before queues are removed to be rebuilt, the ends of all of them, since their records may be
damaged, or deleted by another program.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from ariane_record.layout import RECORD_BYTES_MIN
from ariane_storage.disk.disk import Disk
from ariane_storage.errors import StateFileDamaged
from ariane_storage.log.deleted_topics import DeletedTopics
from ariane_storage.queues.queue_table import QueueTable
from ariane_storage.state_file import StateFile, other_shape


class IdleQueues:
    """The ends of queues without records."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._file = StateFile(path, disk)
        self._saved: dict[str, dict[str, int]] | None = None

    def note(self, queues: QueueTable, commit_log_begin: int, durable_end: int) -> None:
        """Write down the end of each queue without a durable record at or above an offset.

        Queues for which this is unknown, because records are appended meanwhile, are written down,
            too: an end that the log knows better is ignored.

        Args:
            queues: All queues.
            commit_log_begin: The offset.
            durable_end: The durable end of the log.

        Raises:
            OSError: The disk failed.
        """
        ends: dict[str, dict[str, int]] = {}
        for queue in queues:
            last = queue.last_record_end
            if commit_log_begin < last <= durable_end:
                continue
            end = queue.end_below(durable_end)
            if end:
                ends.setdefault(queue.topic, {})[str(queue.queue_id)] = end
        if ends != self._saved:
            self._file.save({"queues": ends})
            self._saved = ends

    def forget(self, topics: Container[str]) -> None:
        """Remove the ends of topics that are about to be deleted.

        Raises:
            OSError: The disk failed.
        """
        if self._saved is None:
            try:
                self._saved = self._load()
            except StateFileDamaged:
                return  # The file is not read before an operator has mended it.
        ends = {topic: of_topic for topic, of_topic in self._saved.items() if topic not in topics}
        if ends != self._saved:
            self._file.save({"queues": ends})
            self._saved = ends

    def remember(self, queues: QueueTable) -> None:
        """Write down the ends of all queues, which are about to be removed and rebuilt.

        A higher end that is already written down stays: it may be of an interrupted rebuild.

        Raises:
            StateFileDamaged: The earlier ends are unknown; an operator must decide.
            OSError: The disk failed.
        """
        ends = self._load()
        for queue in queues:
            if queue.end_offset:
                of_topic = ends.setdefault(queue.topic, {})
                queue_id = str(queue.queue_id)
                of_topic[queue_id] = max(queue.end_offset, of_topic.get(queue_id, 0))
        if ends:
            self._file.save({"queues": ends})
            self._saved = ends

    def _load(self) -> dict[str, dict[str, int]]:
        state = self._file.load() or {}
        try:
            return {
                topic: {str(int(queue_id)): int(end) for queue_id, end in ends.items()}
                for topic, ends in state.get("queues", {}).items()
            }
        except (AttributeError, TypeError, ValueError) as error:
            raise other_shape(self._file.path, error) from error

    def check(self) -> None:
        """Check that the file can be read.

        Raises:
            StateFileDamaged: The file cannot be read.
        """
        self._load()

    def restore(
        self, queues: QueueTable, deleted_topics: DeletedTopics, *, damaged_bytes: int
    ) -> None:
        """Make queues that were rebuilt with fewer records continue at their earlier ends.

        Args:
            queues: All queues, just rebuilt.
            deleted_topics: Topics that may have been idle before their deletion.
            damaged_bytes: Size of the log's damage, which bounds how many records may be missing.

        Raises:
            StateFileDamaged: The ends are unknown; an operator must decide.
        """
        missing_max = damaged_bytes // RECORD_BYTES_MIN
        for topic, ends in self._load().items():
            if deleted_topics.end_of(topic):
                continue
            for queue_id, end in ends.items():
                queue = queues.find_or_make(topic, int(queue_id))
                if queue.end_offset == 0:
                    # A hole in place of its last message, so that the queue has a file again.
                    queue.start_at(end - 1)
                    queue.skip_to(end)
                elif 0 < end - queue.end_offset <= missing_max:
                    queue.skip_to(end)
