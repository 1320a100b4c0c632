"""The folder of a store: where everything lies, who owns it, and how it was left.

::

    <root>/
      commitlog/                 segments                         (the only truth)
      consumequeue/<topic>/<id>/ entries of each message queue    (derived)
      index/                     index files                      (derived)
      config/                    state of the broker: *.json      (kept by StateFile)
      checkpoint                 what is durable                  (derived)
      idle-queues.json           ends of queues without records   (kept by retention)
      deleted-topics.json        up to where records are deleted  (kept by deletions)
      quarantine.json            damaged ranges of the log        (found by recovery and reads)
      layout.json                sizes of all these files
      lock                       locked while a process owns the store
      abort                      there while it runs; left behind by a crash
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ariane_storage.disk import Disk, FileLock
from ariane_storage.errors import StoreFormatError, StoreLocked


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """Paths of a store.

    Attributes:
        root: Its folder.
    """

    root: Path

    @property
    def commit_log(self) -> Path:
        """Folder of segments."""
        return self.root / "commitlog"

    @property
    def consume_queues(self) -> Path:
        """Folder of consume queues."""
        return self.root / "consumequeue"

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
        """What is durable."""
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
        """Up to where records of deleted topics reach."""
        return self.root / "deleted-topics.json"

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
        """There while the store runs."""
        return self.root / "abort"


def own_store(disk: Disk, files: StoreFiles) -> FileLock:
    """Take the lock of a store, making its folder if need be.

    Raises:
        StoreLocked: Another process, or another object of this one, has it.
    """
    disk.make_folders(files.root)
    if disk.size_of(files.lock) is None:
        disk.write(files.lock, b"lock")
        disk.sync(folders=[files.root])
    lock = disk.lock(files.lock, exclusive=True)
    if lock is None:
        raise StoreLocked(files.root)
    return lock


def visit_store(disk: Disk, files: StoreFiles) -> FileLock | None:
    """Take a lock for reading a closed store; None if it has no lock file.

    Raises:
        StoreFormatError: The folder holds no store.
        StoreLocked: A process has it open.
    """
    if not disk.is_folder(files.commit_log):
        raise StoreFormatError(files.root, "no store: there is no folder commitlog in it")
    if disk.size_of(files.lock) is None:
        return None
    lock = disk.lock(files.lock, exclusive=False)
    if lock is None:
        raise StoreLocked(files.root)
    return lock


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
