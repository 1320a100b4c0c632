"""Inspection of a closed store's other files: checkpoint and state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ariane_storage.disk.disk import Disk
from ariane_storage.errors import StateFileDamaged
from ariane_storage.layout import load_layout
from ariane_storage.log.checkpoint import CheckpointFile
from ariane_storage.log.deleted_topics import DeletedTopics
from ariane_storage.log.quarantine import Quarantine
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.offline.finding import Finding, FindingState
from ariane_storage.queues.idle_queues import IdleQueues
from ariane_storage.state_file import StateFile

_FOLDER: Final = "a folder in the place of a file: restore the file, or remove the folder"


def check_state(store: ClosedStore) -> Iterator[Finding]:
    """Faults of the checkpoint and of all state files, including the broker's."""
    disk, files = store.disk, store.files
    is_ours = load_layout(disk, files) is not None
    if is_ours and CheckpointFile(disk, files.checkpoint).is_damaged():
        reason = "cannot be believed: the next start reads the whole log"
        yield Finding("checkpoint", reason, path=files.checkpoint.name)
    if store.checkpoint is not None and not is_ours:
        reason = f"{files.layout.name} is missing: sizes are read off the files; restore it"
        yield Finding("layout", reason, path=files.layout.name, state=FindingState.BY_HAND)
    if disk.is_folder(files.quarantine):
        path = files.quarantine.name
        yield Finding("quarantine", _FOLDER, path=path, state=FindingState.BY_HAND)
    elif not Quarantine(disk, files.quarantine).load():
        reason = "cannot be read: what is damaged is found again"
        yield Finding("quarantine", reason, path=files.quarantine.name)
    yield from _check_file(disk, files.root, files.deleted_topics, "deleted topics")
    yield from _check_file(disk, files.root, files.idle_queues, "idle queues")
    for name in _state_names(disk.names(files.config)):
        yield from _check_file(disk, files.root, files.config / name, "state file")


def _state_names(names: list[str]) -> list[str]:
    """Names of state files of which any generation exists."""
    endings = (".json", ".json.bak", ".json.sums")
    found = {name[: name.index(".json") + 5] for name in names if name.endswith(endings)}
    return sorted(found)


def _check_file(disk: Disk, root: Path, path: Path, where: str) -> Iterator[Finding]:
    shown = str(path.relative_to(root))
    file = StateFile(path, disk)
    reason = ""
    try:
        file.load()
        if where == "deleted topics":
            DeletedTopics(disk, path).load(0)
        elif where == "idle queues":
            IdleQueues(disk, path).check()
        if file.used_backup:
            reason = "damaged or missing: the generation before it is used"
    except StateFileDamaged as error:
        reason = error.reason
    except IsADirectoryError:
        reason = _FOLDER
    if reason:
        yield Finding(where, reason, path=shown, state=FindingState.BY_HAND)
