"""Which files of a closed store something has written, made or removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_DERIVED: Final = ("consumequeue", "index")
_BESIDE: Final = (".sums", ".bak", ".tmp")

FileMarks = Mapping[str, tuple[int, int, int]]
"""By path below the store: number of the file, time of its last change in ns, bytes."""


def file_marks(root: Path) -> FileMarks:
    """A mark that changes when files are written."""
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
    """Paths, and what became of the file; files that are derived are only counted.

    Args:
        before: Marks of all files as they were.
        after: As they are.
    """
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
