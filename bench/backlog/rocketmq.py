"""RocketMQ with a backlog: its servers with their defaults, and its Java clients.

A broker has its files mapped, so that the system does not forget those it has touched. It is
therefore started anew for each case; its log has files of 256 MiB instead of 1 GiB, because a start
reads the last three.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.backlog.disk import Limits, drop, family, read_bytes, slowed
from bench.backlog.table import (
    BODY_BYTES,
    LAGGING_BEFORE_S,
    LIVE,
    LIVE_PER_S,
    QUEUES,
    TOPIC,
    Case,
    Measured,
)

sys.path.append(str(Path(__file__).parents[1] / "peers"))

from peer_bench.contenders.rocketmq import rocketmq
from peer_bench.drivers import Driver
from peer_bench.fetched.maven import class_path, driver_path
from peer_bench.loads import Load

NAME: Final = f"{rocketmq.NAME} {rocketmq.VERSION}"
SETTINGS: Final = {"mapedFileSizeCommitLog": 256 << 20}
FILL_S_MAX: Final = 600.0
WARM_S: Final = 1.0
"""So long messages of a case are not looked at: its listener has just got its queues."""
WARM_UP: Final = Load("singles", "warm-up", 10_000, BODY_BYTES, rate=1000)
"""Live traffic before anything is measured, so that client and broker are compiled."""


def measure(
    folder: Path, size_bytes: int, cases: Sequence[Case], limits: Limits, seconds: float
) -> Iterator[tuple[Case, Measured]]:
    """All cases beside a backlog of so many bytes, each as it comes.

    Raises:
        PeerUnavailable: RocketMQ cannot be had or started here.
    """
    with _running(folder) as (addresses, _), _reader(folder, addresses) as reader:
        count = size_bytes // BODY_BYTES
        filling: dict[str, Any] = {"topic": TOPIC, "queues": QUEUES, "body_bytes": BODY_BYTES}
        reader.ask("fill", count=count, **filling, seconds=FILL_S_MAX)
    for case in cases:
        with (
            _running(folder) as (addresses, server_pids),
            rocketmq.driver_of(folder, *addresses) as driver,
            _reader(folder, addresses) as reader,
        ):
            _exchange(driver, WARM_UP)
            drop(folder)
            pids = [each for pid in server_pids for each in family(pid)]
            with slowed(pids, limits):
                yield case, _measured(driver, reader, case, pids, seconds)


def _measured(
    driver: Driver, reader: Driver, case: Case, pids: Sequence[int], seconds: float
) -> Measured:
    if case.groups:
        reader.ask("lag", topic=TOPIC, groups=case.groups, at_once=case.at_once)
        time.sleep(LAGGING_BEFORE_S)
    live = Load("singles", LIVE, 0, BODY_BYTES, rate=LIVE_PER_S).for_seconds(seconds, WARM_S)
    before, begin_s = sum(map(read_bytes, pids)), time.monotonic()
    sent, heard = _exchange(driver, live)
    disk_bytes = sum(map(read_bytes, pids)) - before
    took_s = time.monotonic() - begin_s
    counts = reader.ask("lagged")["counts"]
    return Measured(
        (sent["acknowledged"]["p50"], sent["acknowledged"]["p99"]),
        (heard["percentiles"]["p50"], heard["percentiles"]["p99"]),
        counts,
        disk_bytes / 1e6 / took_s,
    )


def _exchange(driver: Driver, load: Load) -> tuple[dict[str, Any], dict[str, Any]]:
    """Send on a schedule and listen meanwhile."""
    asked = load.asked()
    driver.ask("prepare_produce", **asked)
    driver.ask("listen", **asked)
    return driver.ask("send_scheduled", **asked), driver.ask("heard", **asked)


@contextmanager
def _running(folder: Path) -> Iterator[tuple[tuple[str, str], list[int]]]:
    jars = class_path("rocketmq")
    with rocketmq.servers(jars, folder, flush_mode="async", settings=SETTINGS) as running:
        yield running


def _reader(folder: Path, addresses: tuple[str, str]) -> Driver:
    """Who fills and who lags; with less of the processors, as if elsewhere."""
    command = ["nice", "-n", "10", "java", "-Xmx2g", f"-Duser.home={folder}"]
    command += ["-cp", driver_path("rocketmq"), "BacklogReader", *addresses]
    return Driver("the groups that lag", command, folder / "reader.log")
