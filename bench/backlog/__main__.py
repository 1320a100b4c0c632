"""What senders and live consumers notice of groups that read a cold backlog, and how fast they do.

    .venv/bin/python -m bench.backlog --folder /var/tmp/backlog [--gib 4] [--groups 1,4,16]
        [--read-mb 80 --reads 200] [--per-s 50000] [--warm] [--rocketmq]

A broker has a backlog of 16 queues on its disk. Before each case its files are dropped from the
page cache, or, with --warm, read into it: at one pace (--per-s), the difference is the disk's
part. Then 300 lone messages a second are sent in an open loop, and heard by a live consumer;
beside them so many groups read the backlog from its begin, each queue after queue, or all queues at
once. With limits, the broker's reads are held to them by a cgroup (as root; blkio of version 1, or
io of version 2). The folder must be on the disk that is meant: not on tmpfs. RocketMQ, if it is
asked for, is measured afterwards in the same way; it needs Java and Maven.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.backlog import ours, rocketmq
from bench.backlog.disk import Limits, device_of
from bench.backlog.table import BODY_BYTES, HEAD, QUEUES, Reading, cases_of, show


@contextmanager
def new_folder(path: str) -> Iterator[Path]:
    """A folder that is there only meanwhile."""
    folder = Path(path)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


async def measure_ours(folder: Path, arguments: argparse.Namespace, limits: Limits) -> None:
    """All cases of ours."""
    cases, size_bytes = cases_of(arguments.groups), arguments.gib << 30
    how = Reading(arguments.seconds, arguments.per_s, arguments.warm)
    async for case, row in ours.measure(folder, size_bytes, cases, limits, how):
        show(ours.NAME, case, row)


def measure(arguments: argparse.Namespace) -> None:
    """Measure and print, row by row."""
    print(f"{arguments.gib} GiB in {QUEUES} queues, {BODY_BYTES} bytes a message\n")
    print(HEAD, flush=True)
    with new_folder(arguments.folder) as folder:
        limits = Limits(device_of(folder), arguments.read_mb, arguments.reads)
        asyncio.run(measure_ours(folder / "ours", arguments, limits))
        if arguments.rocketmq:
            shutil.rmtree(folder / "ours")
            cases, size_bytes = cases_of(arguments.groups), arguments.gib << 30
            theirs = folder / "rocketmq"
            theirs.mkdir()
            for case, row in rocketmq.measure(theirs, size_bytes, cases, limits, arguments.seconds):
                show(rocketmq.NAME, case, row)


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", help="a new folder on the disk that is meant")
    parser.add_argument("--gib", type=int, default=4, help="size of the backlog (default 4)")
    parser.add_argument("--groups", default="1,4,16", help="groups that lag, by case")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each case (default 15)")
    parser.add_argument("--read-mb", type=float, default=0, help="megabytes read a second; 0: any")
    parser.add_argument("--reads", type=int, default=200, help="reads a second, with --read-mb")
    parser.add_argument("--per-s", type=float, default=0, help="messages read a second; 0: any")
    parser.add_argument("--warm", action="store_true", help="read from memory; ours only")
    parser.add_argument("--rocketmq", action="store_true", help="measure RocketMQ as well")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        ours.run_peer(json.loads(arguments.peer))
    elif not arguments.folder:
        parser.error("--folder is needed")
    elif Path(arguments.folder).exists():
        parser.error(f"there is something at {arguments.folder} already; name a new folder")
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
