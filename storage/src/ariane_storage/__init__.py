"""The store: commit log, consume queues, index, recovery."""

from ariane_storage.config import FlushMode, StoreConfig
from ariane_storage.disk.clock import Clock, SystemClock
from ariane_storage.disk.disk import Disk, DiskUsage
from ariane_storage.disk.os_disk import OsDisk
from ariane_storage.errors import (
    BlockRejected,
    IllegalQueue,
    QueueOffsetOutOfRange,
    RecordCorrupted,
    RecordNotFound,
    StateFileDamaged,
    StorageError,
    StoreClosed,
    StoreFormatError,
    StoreFull,
    StoreLocked,
    StorePoisoned,
)
from ariane_storage.keeping.retention import RetentionReason, RetentionReport
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.queues.time_lookup import TimeBoundary
from ariane_storage.reading.read import QueueRead, QueueReadStatus
from ariane_storage.recovery.recovery import Progress, ProgressCallback, RecoveryReport
from ariane_storage.state_file import StateFile
from ariane_storage.store import Store
from ariane_storage.writing.append import Appended

__all__ = [
    "Appended",
    "BlockRejected",
    "Clock",
    "Damage",
    "DamageReason",
    "Disk",
    "DiskUsage",
    "FlushMode",
    "IllegalQueue",
    "OsDisk",
    "Progress",
    "ProgressCallback",
    "QueueOffsetOutOfRange",
    "QueueRead",
    "QueueReadStatus",
    "RecordCorrupted",
    "RecordNotFound",
    "RecoveryReport",
    "RetentionReason",
    "RetentionReport",
    "StateFile",
    "StateFileDamaged",
    "StorageError",
    "Store",
    "StoreClosed",
    "StoreConfig",
    "StoreFormatError",
    "StoreFull",
    "StoreLocked",
    "StorePoisoned",
    "SystemClock",
    "TimeBoundary",
]
