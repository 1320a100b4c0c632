"""``ariane debug bundle``: one file with all that somebody who helps will ask for."""

from __future__ import annotations

import io
import json
import os
import platform
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Final, NamedTuple

import click

from ariane_admin.asking.options import question_options
from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.named_files import FileToWrite
from ariane_admin.terminal.output import Output
from ariane_admin.terminal.progress import progress
from ariane_servicekit.observability.passwords import without_passwords

LOG_BYTES_MAX: Final = 8 << 20
"""The bundle has so much of the end of each log file."""

_QUESTIONS: Final = (
    ("doctor",),
    ("cluster", "show"),
    ("broker", "list"),
    ("topic", "list", "--system"),
    ("group", "list", "--system"),
)
"""Commands whose answers are kept."""


class Kept(NamedTuple):
    """One file of a bundle."""

    name: str
    """Its path in the archive."""
    content: bytes
    """Its bytes."""


@click.command()
@click.option(
    "--file",
    "-f",
    "target",
    type=FileToWrite(),
    help="File to write; by default ariane-debug-TIME.tar.gz in the current folder.",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help=f"A log file of a service; its last {LOG_BYTES_MAX >> 20} MiB. May be repeated.",
)
@question_options
def bundle(
    *, target: Path | None, logs: tuple[Path, ...], name_servers: str, output: Output
) -> None:
    """Write diagnostic data of a cluster into one file, for support.

    The file contains the findings of ariane doctor, the name servers, the brokers with their
    settings, topics, groups, the versions of this machine, and the logs given by --log. It contains
    no messages, and passwords in URLs are removed. Review it before you pass it on. Requests that
    got no answer are included as errors.

    \b
    Examples:
      ariane debug bundle
      ariane debug bundle -f bundle.tar.gz --log /var/log/ariane/broker-a.log
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    now = datetime.now(UTC)
    path = target or Path(f"ariane-debug-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    with progress() as show:
        kept = [_machine(now)]
        for one in _answers(name_servers):
            show(one.name)
            kept.append(one)
        kept += map(_log, logs)
    _write(path, kept)
    names = [one.name for one in kept]
    output.done(f"{path}: {counted(len(names), 'file')}", {"file": str(path), "contents": names})


def _answers(name_servers: str) -> Iterator[Kept]:
    """What commands answer; those about one broker for each of them."""
    brokers: list[str] = []
    for question in _QUESTIONS:
        kept, answer = _answer(question, name_servers)
        yield kept
        if question == ("broker", "list") and isinstance(answer, list):
            brokers = sorted({str(row["broker"]) for row in answer if "broker" in row})
    for broker in brokers:
        yield _answer(("broker", "show", broker, "--settings"), name_servers)[0]


def _answer(question: Sequence[str], name_servers: str) -> tuple[Kept, object]:
    """Run a command of ours; its answer, or its error, as a file.

    Raises:
        KeyboardInterrupt: Ctrl-C has ended it, and was meant for all.
    """
    # The root stands above this command, and nothing but a bundle runs other commands.
    from ariane_admin.cli import main  # noqa: PLC0415

    out, err = io.StringIO(), io.StringIO()
    begin = time.monotonic()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([*question, "--name-servers", name_servers, "-o", "json"])
    if status == ExitStatus.INTERRUPTED:
        raise KeyboardInterrupt
    answer = json.loads(out.getvalue()) if out.getvalue().strip() else None
    facts = {
        "command": " ".join(("ariane", *question)),
        "status": ExitStatus(status).name,
        "seconds": round(time.monotonic() - begin, 3),
        "errors": err.getvalue().splitlines(),
        "answer": answer,
    }
    name = "-".join(word.lstrip("-") for word in question)
    return Kept(f"{name}.json", _without_secrets(json.dumps(facts, indent=1))), answer


def _machine(now: datetime) -> Kept:
    """Where and when the bundle was made, and with what."""
    versions = {each.name: each.version for each in distributions()}
    facts = {
        "time": now.isoformat(timespec="milliseconds"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "versions": dict(sorted(versions.items())),
    }
    return Kept("machine.json", json.dumps(facts, indent=1).encode())


def _log(path: Path) -> Kept:
    """The end of a log.

    Raises:
        CommandFailed: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_BYTES_MAX))
            text = file.read(LOG_BYTES_MAX).decode(errors="backslashreplace")
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}") from error
    return Kept(f"logs/{str(path.absolute()).strip('/').replace('/', '_')}", _without_secrets(text))


def _without_secrets(text: str) -> bytes:
    return without_passwords(text).encode()


def _write(path: Path, kept: Sequence[Kept]) -> None:
    """Write the archive; only its owner can read it.

    Raises:
        CommandFailed: It cannot be written.
    """
    folder = path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with (
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for one in kept:
                entry = tarfile.TarInfo(f"{folder}/{one.name}")
                entry.size, entry.mtime, entry.mode = len(one.content), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(one.content))
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from error
