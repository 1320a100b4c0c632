"""Which files of a closed store were written, created or removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_DERIVED: Final = ("consumequeue", "index")
_BESIDE: Final = (".sums", ".bak", ".tmp")

FileMarks = Mapping[str, tuple[int, int, int]]
"""By path relative to the store: inode, time of the last change in ns, size in bytes."""


def file_marks(root: Path) -> FileMarks:
    """Marks of all files; a file's mark changes when it is written."""
    marks = {}
    for path in root.rglob("*"):
        if path.is_file() and not path.name.endswith(_BESIDE):
            status = path.stat()
            marks[str(path.relative_to(root))] = (
                status.st_ino,
                status.st_mtime_ns,
                status.st_size,
            )
    return marks


def written_files(before: FileMarks, after: FileMarks) -> Iterator[tuple[str, str]]:
    """The paths of changed files with the kind of change; derived files are only counted."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) == after.get(path):
            continue
        change = "removed" if path not in after else "written" if path in before else "made"
        folder = path.partition("/")[0]
        if folder in _DERIVED:
            counts[folder, change] += 1
        else:
            yield path, change
    for (folder, change), count in counts.items():
        yield folder, f"{count} {'file' if count == 1 else 'files'} {change}"
