"""``ariane store fsck``: the faults of a store, by range and reason, and repairs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from ariane_record.counted import counted
from ariane_storage.commands.output import (
    EXIT_DAMAGED,
    EXIT_FAILED,
    folder_argument,
    format_option,
    one_line_errors,
    print_rows,
    progress_on_stderr,
)
from ariane_storage.disk.os_disk import OsDisk
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.offline.finding import Finding, FindingState, lost_messages
from ariane_storage.offline.inspection import inspect
from ariane_storage.offline.repair import repair

_DERIVED: Final = ("consumequeue", "index")
_BESIDE: Final = (".sums", ".bak", ".tmp")

FileMarks = Mapping[str, tuple[int, int, int]]
"""By path relative to the store: inode, time of the last change in ns, size in bytes."""

_COLUMNS: Final = (
    *("where", "reason", "begin", "end", "topic", "queue_id"),
    *("path", "position", "state"),
)

_EXAMPLES: Final = """
\b
Examples:
  ariane store fsck /var/lib/ariane/broker-a
  ariane store fsck /var/lib/ariane/broker-a --repair -o jsonl
"""


@click.command(name="fsck", epilog=_EXAMPLES, short_help="List damage, and repair it.")
@folder_argument
@format_option
@click.option(
    "--repair",
    "is_repair",
    is_flag=True,
    help="First repair what can be repaired: cut a torn tail, quarantine damage,"
    " rebuild queues, index and checkpoint. Then list what was found and its state"
    " now.",
)
@one_line_errors
def fsck(folder: Path, output_format: str, *, is_repair: bool) -> None:
    """List all damage in the closed store in DIR, and optionally repair it.

    Nothing is changed unless --repair is given. Each finding has a place (file and byte, or topic
    and queue), a range, and a state: "open" (--repair fixes it), "by hand" (only you can fix it),
    "quarantined" (known damage that is skipped), "lost" (messages gone for good). A repair adds
    the states "cut", "built again", "set aside" (a foreign file that was renamed) and "done" (a
    file that it has written).

    The exit status is 1 if any finding other than a torn tail is left, lost messages included,
    and 2 if the repair was refused.
    """
    if is_repair:
        _repair(folder, output_format)
        return
    with ClosedStore(folder, OsDisk()) as store, progress_on_stderr() as progress:
        found = inspect(store, progress)
    _print(found.findings, output_format)
    if output_format == "table":
        click.echo(_summary(found.records, found.findings))
    if not found.is_sound:
        raise SystemExit(EXIT_DAMAGED)


def _repair(folder: Path, output_format: str) -> None:
    before = file_marks(folder)
    with progress_on_stderr() as progress:
        done = repair(folder, OsDisk(), progress)
    files = [
        Finding("file", change, path=path, state=FindingState.DONE)
        for path, change in written_files(before, file_marks(folder))
    ]
    _print([*done.findings, *files], output_format)
    if output_format == "table":
        nothing = "" if done.was_needed else "; nothing was changed"
        click.echo(f"{_summary(done.after.records, done.findings)}{nothing}")
    if done.refusal is not None:
        click.echo(f"ariane store: not repaired: {done.refusal}", err=True)
        sys.exit(EXIT_FAILED)
    if not done.after.is_sound or lost_messages(done.findings):
        raise SystemExit(EXIT_DAMAGED)


def _print(findings: list[Finding], output_format: str) -> None:
    if findings or output_format != "table":
        print_rows(map(asdict, findings), _COLUMNS, output_format)


def _summary(records: int, findings: list[Finding]) -> str:
    """Summarise the findings in words."""
    if not findings:
        return f"{counted(records, 'record')}, no problem found"
    counts = Counter(finding.state for finding in findings)
    parts = [counted(records, "record")]
    if to_repair := counts[FindingState.OPEN]:
        parts.append(f"{to_repair} to repair")
    else:
        parts.append("nothing is left to repair")
    if by_hand := counts[FindingState.BY_HAND]:
        parts.append(f"{by_hand} to fix by hand")
    if ranges := counts[FindingState.QUARANTINED]:
        parts.append(f"{counted(ranges, 'range')} quarantined")
    if lost := lost_messages(findings):
        parts.append(f"{counted(lost, 'message')} lost for good")
    return ", ".join(parts)


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
        yield folder, f"{counted(count, 'file')} {change}"
