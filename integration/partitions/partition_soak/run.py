"""Runs, one seed after another, on one group: disturb, heal, drain, judge; then compare stores."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy import make_url

from ariane_record.counted import counted
from ariane_sdk import ClusterClient
from ariane_sdk.errors import ArianeError
from ariane_testkit.postgresql import running_postgresql
from partition_soak.anomalies import Anomaly, anomalies
from partition_soak.door import Door
from partition_soak.faults import Fault, FaultKind, schedule
from partition_soak.group import BROKER_NAME, BROKERS, LEASE_S, NAME_SERVER, Group, NotHealed
from partition_soak.history import Entry, History, Outcome
from partition_soak.network import DATABASE, Network
from partition_soak.workload import QUEUES, Workload, read_all

FAULTS_S: Final = 10.0
"""Seconds of a run in which faults begin."""

BEFORE_S: Final = 0.5
AFTER_S: Final = 0.5
STORED_MIN: Final = 50
"""Acknowledged messages below which a run has shown nothing."""

_DRAIN_TRIES: Final = 60

Say = Callable[[str], None]


@dataclass(slots=True)
class RunReport:
    """What came of one seed."""

    seed: int
    """The seed."""
    faults: list[str] = field(default_factory=list)
    """What happened, in words."""
    counts: Counter[str] = field(default_factory=Counter)
    """How often each kind of fault happened."""
    stored: int = 0
    """Messages that were acknowledged."""
    unknown: int = 0
    """Messages without an outcome."""
    refused: int = 0
    """Messages that were refused."""
    polled: int = 0
    """Messages that were read meanwhile."""
    epochs: int = 0
    """Elections meanwhile."""
    found: list[Anomaly] = field(default_factory=list)
    """What is wrong."""

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.found


async def soak(
    folder: Path, seeds: Iterable[int], *, power_losses: bool, say: Say
) -> list[RunReport]:
    """Run seeds on a new group until one fails; everything that was started is gone afterwards.

    Args:
        folder: Where logs and stores go.
        seeds: The seeds.
        power_losses: Whether brokers lose power, too.
        say: Is told how it goes.

    Raises:
        NotHealed: The group did not come back.
        ProcessFailed: A broker did not start.
    """
    network = Network((*BROKERS, NAME_SERVER))
    reports: list[RunReport] = []
    with running_postgresql() as url:
        inside = make_url(url)
        try:
            await asyncio.to_thread(network.make)
            async with Door(network.address(DATABASE), "127.0.0.1", inside.port or 0) as port:
                outside = inside.set(host=network.address(DATABASE), port=port)
                reached = outside.render_as_string(hide_password=False)
                group = Group(folder, network, reached, power_losses=power_losses)
                try:
                    await _run_seeds(group, seeds, reports, power_losses=power_losses, say=say)
                    if reports and reports[-1].holds:
                        reports[-1].found += await asyncio.to_thread(_compare_stores, folder)
                finally:
                    await group.unmount()
        finally:
            await asyncio.to_thread(network.remove)
    return reports


async def _run_seeds(
    group: Group, seeds: Iterable[int], reports: list[RunReport], *, power_losses: bool, say: Say
) -> None:
    """Start the group, run seeds until one fails, and stop the group."""
    try:
        await group.start()
        for seed in seeds:
            reports.append(await run_seed(group, seed, say, power_losses=power_losses))
            if not reports[-1].holds:
                break
        await group.heal()
    finally:
        await group.stop()


async def run_seed(group: Group, seed: int, say: Say, *, power_losses: bool) -> RunReport:
    """One run: clients on a topic of its own, faults, and the verdict.

    Raises:
        NotHealed: The group did not come back.
        ProcessFailed: A broker did not start.
    """
    kinds = [kind for kind in FaultKind if power_losses or not kind.needs_disk]
    faults = schedule(seed, length_s=FAULTS_S, lease_s=LEASE_S, brokers=len(BROKERS), kinds=kinds)
    report, history, topic = RunReport(seed), History(), f"s{seed}"
    begin = await group.heal()
    await _make_topic(group.name_servers, topic)
    workload = Workload(group.name_servers, topic, BROKER_NAME, history)
    await workload.start()
    await asyncio.sleep(BEFORE_S)
    await _disturb(group, faults, report)
    await group.heal()
    await asyncio.sleep(AFTER_S)
    await workload.end()
    end = await group.heal()  # Not before: a primary that the machine stalls may be replaced.
    history.epochs = [(one.epoch, one.begin_commit_log_offset) for one in end.epochs]
    history.final = await _drain(group.name_servers, topic)
    _judge(report, history)
    report.epochs = end.replica_set.epoch - begin.replica_set.epoch
    say(
        f"seed {seed}: {counted(len(report.faults), 'fault')},"
        f" {counted(report.epochs, 'election')},"
        f" {report.stored} stored, {report.unknown} unknown, {report.refused} refused"
    )
    for anomaly in report.found:
        say(f"  {anomaly}")
    return report


async def _disturb(group: Group, faults: Sequence[Fault], report: RunReport) -> None:
    begin_s = asyncio.get_running_loop().time()

    async def happen(fault: Fault) -> None:
        met = await group.suffer(fault)
        if met:
            report.counts[fault.kind] += 1
            report.faults.append(f"{fault} ({met})")

    happening: list[asyncio.Task[None]] = []
    for fault in faults:
        left_s = begin_s + fault.begin_s - asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, left_s))
        happening.append(asyncio.create_task(happen(fault)))
    await asyncio.gather(*happening)


async def _make_topic(name_servers: str, topic: str) -> None:
    """Also where a machine that stalls costs the primary its lease right then."""
    async with ClusterClient(name_servers) as client:
        for _ in range(_DRAIN_TRIES):
            try:
                await client.create_topic(topic, queue_count=QUEUES, exists_ok=True)
            except ArianeError as error:
                last = error
                await asyncio.sleep(LEASE_S / 2)
            else:
                return
    raise NotHealed(f"nobody creates topic {topic}: {last}")


async def _drain(name_servers: str, topic: str) -> dict[int, list[Entry]]:
    for _ in range(_DRAIN_TRIES):
        try:
            return await read_all(name_servers, topic)
        except ArianeError as error:
            last = error
            await asyncio.sleep(LEASE_S / 2)
    raise NotHealed(f"nobody lets read topic {topic}: {last}")


def _judge(report: RunReport, history: History) -> None:
    outcomes = Counter(send.outcome for send in history.sends)
    report.stored = outcomes[Outcome.STORED]
    report.unknown = outcomes[Outcome.UNKNOWN]
    report.refused = outcomes[Outcome.REFUSED]
    report.polled = sum(len(poll.entries) for poll in history.polls)
    report.found = anomalies(history)
    if report.stored < STORED_MIN or not report.polled or not report.faults:
        counts = f"{report.stored} stored, {report.polled} read, {len(report.faults)} faults"
        report.found.append(Anomaly("too-little", f"nothing is shown by {counts}"))


def _compare_stores(folder: Path) -> list[Anomaly]:
    """Whether the stores are sound, and their logs the same."""
    found = []
    for name in BROKERS:
        fsck = (sys.executable, "-m", "ariane_admin", "store", "fsck", str(folder / name))
        checked = subprocess.run(fsck, check=False, capture_output=True, text=True)
        if checked.returncode != 0:
            said = (checked.stdout + checked.stderr).strip()[-500:]
            found.append(Anomaly("damaged-store", f"{name}: {said}"))
    logs = [_log_of(folder / name) for name in BROKERS]
    for name, log in zip(BROKERS[1:], logs[1:], strict=True):
        found += [
            Anomaly("replicas-differ", f"{BROKERS[0]} and {name}: {segment}")
            for segment in sorted(logs[0].keys() & log.keys())
            if logs[0][segment].read_bytes() != log[segment].read_bytes()
        ]
    return found


def _log_of(store: Path) -> dict[str, Path]:
    return {path.name: path for path in (store / "commitlog").iterdir() if path.is_file()}
