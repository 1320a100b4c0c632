"""Where queues go on whose messages are all gone from the log.

::

    idle-queues.json    {"queues": {"flights": {"0": 1200, "3": 77}}}

Consume queues are rebuilt from the log when their files are lost. A queue that retention has
emptied has no records there any more, and would start at 0 again: consumers that stand at 1200
would see offsets used twice. So before the last record of a queue is deleted its end is written
down here.
"""

from __future__ import annotations

from pathlib import Path

from ariane_storage.deleted_topics import DeletedTopics
from ariane_storage.disk import Disk
from ariane_storage.queue_table import QueueTable
from ariane_storage.state_file import StateFile


class IdleQueues:
    """The ends of queues without records."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._file = StateFile(path, disk)
        self._saved: dict[str, dict[str, int]] | None = None

    def note(self, queues: QueueTable, commit_log_begin: int) -> None:
        """Write down the end of each queue that has no record at or above an offset.

        Raises:
            OSError: The disk failed.
        """
        ends: dict[str, dict[str, int]] = {}
        for queue in queues:
            if queue.end_offset and queue.last_record_end <= commit_log_begin:
                ends.setdefault(queue.topic, {})[str(queue.queue_id)] = queue.end_offset
        if ends != self._saved:
            self._file.save({"queues": ends})
            self._saved = ends

    def restore(self, queues: QueueTable, deleted_topics: DeletedTopics) -> None:
        """Let queues that were rebuilt without any record go on where they were.

        Args:
            queues: All queues, just rebuilt.
            deleted_topics: A topic among them was idle before it was deleted.

        Raises:
            StateFileDamaged: Nobody knows where; an operator has to decide.
        """
        state = self._file.load() or {}
        for topic, ends in state.get("queues", {}).items():
            if deleted_topics.end_of(topic):
                continue
            for queue_id, end in ends.items():
                queue = queues.find_or_make(topic, int(queue_id))
                if queue.end_offset == 0:
                    # A hole in the place of its last message: so that it has a file again.
                    queue.start_at(int(end) - 1)
                    queue.skip_to(int(end))
