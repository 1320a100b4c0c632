"""Features of RocketMQ in whose files this store cannot read everything: named, never passed over.

::

    consumequeue_ext/     tag codes of some entries are places in it   queues are built again
    batchconsumequeue/    one record holds several messages            refused
    consumequeue/CURRENT, config/<name>/CURRENT: RocksDB has them      refused
    config/users, config/acls: users and their rights, in RocksDB      reported, nothing reads them
    consumequeue/%LMQ%x   light queues: places of others' records      reported, nothing reads them
    rocksdbstore/*.sst    perhaps timers of messages                   reported
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ariane_storage.disk.disk import Disk
from ariane_storage.errors import StoreFormatError
from ariane_storage.store_files import StoreFiles

LIGHT_PREFIX: Final = "%LMQ%"

NAMED_MAX: Final = 5

_ROCKSDB_MARK: Final = "CURRENT"
"""A file of this name lies in every folder of RocksDB."""

_OF_USERS: Final = ("users", "acls")
"""Folders of the settings in which RocketMQ 5.3 and later keeps users and their rights."""


def refuse_foreign_features(disk: Disk, files: StoreFiles) -> None:
    """Refuse a store from which messages or settings would be missing.

    Raises:
        StoreFormatError: It has such a feature; the error names it.
    """
    batched = [topic for topic in disk.names(_batched(files)) if _holds_files(disk, files, topic)]
    if batched:
        raise StoreFormatError(
            _batched(files),
            f"holds queues of batches (BatchCQ) of {_listed(batched)}, where one record has several"
            " messages: consume these topics with RocketMQ and delete them there first",
        )
    settings = [name for name in disk.names(files.config) if name not in _OF_USERS]
    for folder in (files.consume_queues, *(files.config / name for name in settings)):
        if _is_of_rocksdb(disk, folder):
            raise StoreFormatError(
                folder,
                "is kept by RocksDB (storeType or settings of RocketMQ): only stores with files are"
                " read; change it with RocketMQ first",
            )


def foreign_findings(disk: Disk, files: StoreFiles) -> Iterator[str]:
    """What such features mean here, a sentence for each feature."""
    if has_extended_queues(disk, files):
        yield (
            "consumequeue_ext holds tag codes of RocketMQ's extended consume queues: the consume"
            " queues were built again from the log without it, and it was removed"
        )
    light = [name for name in disk.names(files.consume_queues) if name.startswith(LIGHT_PREFIX)]
    if light:
        yield (
            f"{len(light)} light or multi-dispatch queues are not served, only the topics that hold"
            f" their messages: {_listed(light)}"
        )
    if any(name.endswith(".sst") for name in disk.names(files.root / "rocksdbstore")):
        yield (
            "rocksdbstore holds data: if RocketMQ kept timers there (timerRocksDBEnable), messages"
            " with a delivery time may be delivered again, or at once"
        )
    users = [name for name in _OF_USERS if _is_of_rocksdb(disk, files.config / name)]
    if users:
        yield (
            f"RocketMQ's users and rights in {' and '.join(f'config/{name}' for name in users)} are"
            " not read: ariane access import and ariane credential import-rocketmq take them over"
        )


def has_extended_queues(disk: Disk, files: StoreFiles) -> bool:
    """Whether entries of consume queues may have places in other files instead of tag codes."""
    return bool(disk.names(files.extended_queues))


def _batched(files: StoreFiles) -> Path:
    return files.root / "batchconsumequeue"


def _is_of_rocksdb(disk: Disk, folder: Path) -> bool:
    return disk.is_folder(folder) and _ROCKSDB_MARK in disk.names(folder)


def _holds_files(disk: Disk, files: StoreFiles, topic: str) -> bool:
    folder = _batched(files) / topic
    return any(disk.names(folder / queue) for queue in disk.names(folder))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
