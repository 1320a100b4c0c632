"""The folder of a store: the paths of all files, its lock, and how it was left.

::

    <root>/
      commitlog/                 segments                         (the only truth)
      consumequeue/<topic>/<id>/ entries of each message queue    (derived)
      index/                     index files                      (derived)
      config/                    state of the broker: *.json      (kept by StateFile)
      checkpoint                 the durable state                (derived)
      idle-queues.json           ends of queues without records   (kept by retention)
      deleted-topics.json        records of deleted topics        (kept by deletions)
      quarantine.json            damaged ranges of the log        (found by recovery and reads)
      epochFileCheckpoint        the epochs of the log            (kept by replication)
      replica-set.json           the set that the log belongs to  (kept by replication)
      store-mark.json            a number that its set knows      (kept by replication)
      machine.json               the last boot of the machine     (kept by replication)
      clock-doubt.json           a clock that jumped ahead        (kept by retention)
      layout.json                sizes of all these files
      lock                       locked while a process owns the store, and so is <root> itself
      abort                      there while it runs; left behind by a crash
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ariane_storage.disk.disk import Disk, FileLock
from ariane_storage.errors import StoreFormatError, StoreLocked


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """Paths of a store."""

    root: Path
    """Its folder."""

    @property
    def commit_log(self) -> Path:
        """Folder of segments."""
        return self.root / "commitlog"

    @property
    def consume_queues(self) -> Path:
        """Folder of consume queues."""
        return self.root / "consumequeue"

    @property
    def extended_queues(self) -> Path:
        """Folder of RocketMQ's extended consume queues; this program writes none."""
        return self.root / "consumequeue_ext"

    @property
    def index(self) -> Path:
        """Folder of index files."""
        return self.root / "index"

    @property
    def config(self) -> Path:
        """Folder of state files."""
        return self.root / "config"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint file."""
        return self.root / "checkpoint"

    @property
    def quarantine(self) -> Path:
        """Damaged ranges of the commit log."""
        return self.root / "quarantine.json"

    @property
    def idle_queues(self) -> Path:
        """Ends of queues without records."""
        return self.root / "idle-queues.json"

    @property
    def deleted_topics(self) -> Path:
        """Offsets below which records of topics are deleted."""
        return self.root / "deleted-topics.json"

    @property
    def clock_doubt(self) -> Path:
        """A doubted clock."""
        return self.root / "clock-doubt.json"

    @property
    def epochs(self) -> Path:
        """The epochs of the log. RocketMQ's name."""
        return self.root / "epochFileCheckpoint"

    @property
    def replica_set(self) -> Path:
        """The id of the set that the log belongs to."""
        return self.root / "replica-set.json"

    @property
    def store_mark(self) -> Path:
        """A number that grows with the store, which its set knows."""
        return self.root / "store-mark.json"

    @property
    def machine(self) -> Path:
        """The boot of the machine in which the store was last open; what a power loss may cost."""
        return self.root / "machine.json"

    @property
    def layout(self) -> Path:
        """Sizes of all files."""
        return self.root / "layout.json"

    @property
    def lock(self) -> Path:
        """Locked while a process owns the store."""
        return self.root / "lock"

    @property
    def abort(self) -> Path:
        """Exists while the store is open."""
        return self.root / "abort"


class StoreLock:
    """The locks of a store, taken and released together.

    Java brokers only check the file. But a file can be removed and created anew while its owner
    holds the lock of the removed one; a folder with files in it cannot.
    """

    def __init__(self, locks: list[FileLock]) -> None:
        self._locks = locks

    def release(self) -> None:
        """Release the locks."""
        for lock in reversed(self._locks):
            lock.release()

    @classmethod
    def take(cls, disk: Disk, files: StoreFiles, *, exclusive: bool) -> StoreLock:
        """Lock the folder, then the file if it exists or the lock is exclusive.

        Raises:
            StoreLocked: Another process, or another object of this one, has a lock.
        """
        taken = cls([])
        try:
            taken._add(disk, files, files.root, exclusive=exclusive)
            if exclusive and disk.size_of(files.lock) is None:
                disk.write(files.lock, b"lock")
                disk.sync(folders=[files.root])
            if exclusive or disk.size_of(files.lock) is not None:
                taken._add(disk, files, files.lock, exclusive=exclusive)
        except BaseException:
            taken.release()
            raise
        return taken

    def _add(self, disk: Disk, files: StoreFiles, path: Path, *, exclusive: bool) -> None:
        lock = disk.lock(path, exclusive=exclusive)
        if lock is None:
            raise StoreLocked(files.root)
        self._locks.append(lock)


def own_store(disk: Disk, files: StoreFiles) -> StoreLock:
    """Take the locks of a store, creating its folder if necessary.

    Raises:
        StoreLocked: Another process, or another object of this one, has it.
        OSError: It contains a symbolic link.
    """
    disk.make_folders(files.root)
    _refuse_links(disk, files)
    return StoreLock.take(disk, files, exclusive=True)


def visit_store(disk: Disk, files: StoreFiles) -> StoreLock:
    """Take locks for reading a closed store; nothing is written for it.

    Raises:
        StoreFormatError: The folder holds no store.
        StoreLocked: A process has it open.
        OSError: It contains a symbolic link.
    """
    _refuse_links(disk, files)
    if not disk.is_folder(files.commit_log):
        raise StoreFormatError(files.root, "no store: there is no folder commitlog in it")
    return StoreLock.take(disk, files, exclusive=False)


def _refuse_links(disk: Disk, files: StoreFiles) -> None:
    """Name a symbolic link before anything is read or written through it.

    Folders of single queues are listed when the queues are loaded.
    """
    for folder in (
        files.root,
        files.commit_log,
        files.consume_queues,
        files.index,
        files.config,
    ):
        disk.names(folder)


def mark_running(disk: Disk, files: StoreFiles) -> bool:
    """Leave the mark of a running store; returns whether the previous run ended without a stop."""
    crashed = disk.size_of(files.abort) is not None
    if not crashed:
        disk.write(files.abort, str(disk.process_id()).encode())
        disk.sync(folders=[files.root])
    return crashed


def mark_stopped(disk: Disk, files: StoreFiles) -> None:
    """Remove the mark: everything is flushed and caught up."""
    disk.remove(files.abort)
    disk.sync(folders=[files.root])
