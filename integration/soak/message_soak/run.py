"""The phases of a soak: start all, disturb, heal, drain, stop, verify, judge."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import string
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from ariane_sdk import ClusterClient
from ariane_servicekit.errors import ProcessFailed
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from message_soak.chaos import Disturbance, Disturbed, Kind, Manner, disturbances
from message_soak.clocks import BROKER_MODULE, BrokerClock
from message_soak.crew import Member, MemberFailed
from message_soak.ledger import Receipt, SentLedger, read_receipts, read_stalls
from message_soak.power import BROKER_FLAGS, BrokerDisks
from message_soak.strategies import GROUPS
from message_soak.verdict import Ending, Findings, Stall, given_up, judge_group

TOPIC: Final = "soak"
QUEUES_PER_BROKER: Final = 4
DRAIN_TIMEOUT_S: Final = 120.0
"""How long a drain goes on in which no group gets on."""
READY_S_MAX: Final = 120.0
"""Seconds that a service may take to come back: thirty processes share few cores."""
SEGMENT_FLAGS: Final = ("--segment-bytes", str(64 << 20))

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a soak is."""

    folder: Path
    """Everything it leaves: stores, ledgers, logs."""
    duration_s: float
    """How long processes are disturbed."""
    seed: int
    """Of everything drawn by chance."""
    rate: float = 100.0
    """Messages a second of each producer."""
    name_servers: int = 2
    """How many."""
    brokers: int = 3
    """How many."""
    producers: int = 10
    """How many."""
    members: int = 4
    """Consumers of each of the six groups."""
    power_cuts: bool = False
    """Whether brokers lose power, too; they flush synchronously then, since otherwise the last
    second of what they acknowledged may go with it."""
    clock_jumps: bool = False
    """Whether the clock of brokers jumps, and is right again."""

    @property
    def more(self) -> list[Disturbed]:
        """What happens besides stops and kills."""
        wanted = {Manner.POWER: self.power_cuts, Manner.JUMP: self.clock_jumps}
        return [(Kind.BROKER, manner) for manner, is_wanted in wanted.items() if is_wanted]


@dataclass(slots=True)
class Report:
    """What came of it."""

    seed: int
    """What to give to see the same disturbances again."""
    duration_s: float = 0.0
    """How long producers sent."""
    disturbances: dict[str, int] = field(default_factory=dict)
    """How often each kind of process was stopped, and how."""
    intended: int = 0
    """Messages that producers began to send."""
    acknowledged: int = 0
    """Messages that were acknowledged."""
    unknown: int = 0
    """Messages without an outcome."""
    late_s: float = 0.0
    """For how long a consumer has stood still at most: the machine had too much to do."""
    refused: int = 0
    """Messages that were surely not stored."""
    groups: list[Findings] = field(default_factory=list)
    """What each consumer group shows."""
    faults: list[str] = field(default_factory=list)
    """Whatever else went wrong: members that ended by themselves, damaged stores."""

    @property
    def holds(self) -> bool:
        """Whether every promise was kept, on a run that could have broken it."""
        return (
            not self.faults
            and self.acknowledged > 0
            and bool(self.disturbances)
            and all(group.holds for group in self.groups)
        )

    def to_json(self) -> str:
        """The report for machines."""
        return json.dumps({**asdict(self), "holds": self.holds}, indent=2)


class Soak:
    """One run."""

    def __init__(self, plan: Plan, say: Say) -> None:
        """Set up; nothing runs before ``run``."""
        self._plan, self._say = plan, say
        self._cluster = LocalCluster(
            plan.folder / "cluster",
            brokers=plan.brokers,
            name_servers=plan.name_servers,
            flush_mode="sync" if plan.power_cuts else "async",
            extra_broker_args=(*SEGMENT_FLAGS, *(BROKER_FLAGS if plan.power_cuts else ())),
            broker_module=BROKER_MODULE if plan.clock_jumps else "ariane_broker",
        )
        self._clock = BrokerClock(plan.folder / "clock", Random(plan.seed))
        stores = [f"broker-{letter}" for letter in string.ascii_lowercase[: plan.brokers]]
        self._disks = BrokerDisks(
            plan.folder / "disks", [plan.folder / "cluster" / name for name in stores]
        )
        self._ledgers = plan.folder / "ledgers"
        self._producers: list[Member] = []
        self._consumers: list[Member] = []
        self._disturbed: Counter[Disturbed] = Counter()
        self._endings: list[Ending] = []
        self._report = Report(plan.seed)

    async def run(self) -> Report:
        """Run all phases; every process is gone afterwards, also when one of them fails."""
        self._ledgers.mkdir(parents=True)
        try:
            if self._plan.power_cuts:
                await asyncio.to_thread(self._disks.plug_in)
            if self._plan.clock_jumps:
                os.environ.update(self._clock.wind_up())
            await self._run()
            await self._verify_stores()
        finally:
            await asyncio.to_thread(self._disks.unmount)
        self._judge()
        return self._report

    async def _run(self) -> None:
        """From the start of all processes to the end of all."""
        async with self._cluster:
            async with ClusterClient(self._cluster.name_servers) as client:
                await client.create_topic(TOPIC, queue_count=QUEUES_PER_BROKER, fifo=True)
            try:
                await self._start_members()
                began = time.monotonic()
                await self._disturb()
                await self._end_all(self._producers)
                self._report.duration_s = time.monotonic() - began
                await self._drain()
                await self._end_all(self._consumers)
            finally:
                for member in (*self._producers, *self._consumers):
                    await member.discard()

    async def _start_members(self) -> None:
        plan, addresses = self._plan, self._cluster.name_servers
        for number in range(plan.producers):
            name = f"p{number}"
            ledger = str(self._ledgers / f"sent-{name}")
            words = ("message_soak.producing", name, addresses, TOPIC, ledger, str(plan.rate))
            self._producers.append(Member(name, words, plan.folder / f"{name}.log"))
        for group in GROUPS:
            for number in range(plan.members):
                name = f"{group}.{number}"
                ledger = str(self._ledgers / f"received-{name}")
                command = ("message_soak.consuming", group, addresses, TOPIC, ledger)
                self._consumers.append(Member(name, command, plan.folder / f"{name}.log"))
        self._say(f"{len(self._producers)} producers, {len(self._consumers)} consumers start")
        for member in (*self._consumers, *self._producers):
            await member.start()

    async def _disturb(self) -> None:
        population = {
            Kind.NAME_SERVER: self._plan.name_servers,
            Kind.BROKER: self._plan.brokers,
            Kind.PRODUCER: self._plan.producers,
            Kind.CONSUMER: len(self._consumers),
        }
        chance = Random(self._plan.seed)
        until = time.monotonic() + self._plan.duration_s
        async with asyncio.TaskGroup() as returning:
            away = {kind: asyncio.Lock() for kind in Kind}
            for disturbance in disturbances(chance, population, self._plan.more):
                if time.monotonic() + disturbance.after_s > until:
                    break
                await asyncio.sleep(disturbance.after_s)
                lock = away[disturbance.kind]
                await lock.acquire()
                self._disturbed[disturbance.kind, disturbance.manner] += 1
                left = until - time.monotonic()
                self._say(f"{left:4.0f} s left: {disturbance}; {self._progress()}")
                returning.create_task(self._carry_out(disturbance, lock))
        self._report.disturbances = {
            f"{manner} {kind}": count for (kind, manner), count in sorted(self._disturbed.items())
        }

    async def _carry_out(self, disturbance: Disturbance, lock: asyncio.Lock) -> None:
        try:
            match disturbance.kind:
                case Kind.NAME_SERVER:
                    process = self._cluster.name_server_processes[disturbance.number]
                    await _bounce(process, disturbance)
                case Kind.BROKER:
                    self._note(disturbance, self._cluster.brokers[disturbance.number].name)
                    await self._bounce_broker(disturbance)
                case Kind.PRODUCER | Kind.CONSUMER:
                    crew = self._producers
                    if disturbance.kind is Kind.CONSUMER:
                        crew = self._consumers
                    member = crew[disturbance.number]
                    self._note(disturbance, member.name)
                    killed = disturbance.manner is Manner.KILL
                    await member.end(signal.SIGKILL if killed else signal.SIGTERM)
                    await asyncio.sleep(disturbance.downtime_s)
                    await member.start()
        except (MemberFailed, ProcessFailed) as failure:
            self._say(f"fault: {failure}")
            self._report.faults.append(str(failure))
        finally:
            lock.release()

    def _note(self, disturbance: Disturbance, name: str) -> None:
        """Note that a process ends now."""
        kind, manner = disturbance.kind, disturbance.manner
        self._endings.append(Ending(kind, name, manner, time.monotonic_ns()))

    async def _bounce_broker(self, disturbance: Disturbance) -> None:
        if disturbance.manner is Manner.JUMP:
            self._say(f"the clock of brokers is {self._clock.jump() / 1000:+,.0f} s ahead")
            await asyncio.sleep(disturbance.downtime_s)
            self._clock.be_right()
            return
        broker = self._cluster.brokers[disturbance.number]
        if disturbance.manner is Manner.POWER:
            await self._disks.cut_power(broker)
        await _bounce(broker, disturbance)

    async def _end_all(self, members: list[Member]) -> None:
        ended = await asyncio.gather(
            *(member.end(signal.SIGTERM) for member in members), return_exceptions=True
        )
        for failure in filter(None, ended):
            if not isinstance(failure, MemberFailed):
                raise failure
            self._report.faults.append(str(failure))

    async def _drain(self) -> None:
        """Wait until every group has every acknowledged message, as long as they get on."""
        until, before = time.monotonic() + DRAIN_TIMEOUT_S, dict[str, int]()
        while time.monotonic() < until:
            self._judge()
            missing = {each.group: len(each.lost) for each in self._report.groups if each.lost}
            if not missing:
                return
            if missing != before:
                until, before = time.monotonic() + DRAIN_TIMEOUT_S, missing
            self._say(f"waiting for messages: {missing}")
            await asyncio.sleep(2.0)

    async def _verify_stores(self) -> None:
        for broker in self._cluster.brokers:
            store = self._plan.folder / "cluster" / broker.name
            fsck = (sys.executable, "-m", "ariane_admin", "store", "fsck", str(store))
            checked = await asyncio.to_thread(
                subprocess.run, fsck, check=False, capture_output=True, text=True
            )
            if checked.returncode != 0:
                said = (checked.stdout + checked.stderr).strip()[-500:]
                self._report.faults.append(f"the store of {broker.name} is not sound: {said}")

    def _judge(self) -> None:
        sent = {
            member.name: SentLedger.read(self._ledgers / f"sent-{member.name}")
            for member in self._producers
        }
        report = self._report
        stalls = list(self._stalls())
        report.late_s = max((each.seconds for each in stalls), default=0.0)
        endings = [*self._endings, *given_up(stalls)]
        report.intended = sum(len(ledger.intended) for ledger in sent.values())
        report.acknowledged = sum(len(ledger.acknowledged) for ledger in sent.values())
        report.refused = sum(len(ledger.refused) for ledger in sent.values())
        report.unknown = report.intended - report.acknowledged - report.refused
        report.groups = [
            judge_group(
                group,
                sent,
                self._received(group),
                self._receipts(f"settled-{group}.*"),
                endings=endings,
                late_s=report.late_s,
            )
            for group in GROUPS
        ]

    def _received(self, group: str) -> dict[str, list[Receipt]]:
        """What each member of a group received, over all its lives."""
        names = [each.name for each in self._consumers if each.name.startswith(f"{group}.")]
        return {name: read_receipts(self._ledgers / f"received-{name}") for name in names}

    def _stalls(self) -> Iterator[Stall]:
        for member in self._consumers:
            for stall in read_stalls(self._ledgers / f"stalled-{member.name}"):
                yield Stall(member.name, *stall)

    def _receipts(self, ledgers: str) -> list[Receipt]:
        paths = sorted(self._ledgers.glob(ledgers))
        return [receipt for path in paths for receipt in read_receipts(path)]

    def _progress(self) -> str:
        bytes_of = {
            kind: sum(path.stat().st_size for path in self._ledgers.glob(f"{kind}-*"))
            for kind in ("sent", "received")
        }
        return ", ".join(f"{size >> 10} KiB {kind}" for kind, size in bytes_of.items())


async def _bounce(process: ServiceProcess, disturbance: Disturbance) -> None:
    if disturbance.manner is Manner.KILL:
        process.kill()
    else:
        process.terminate()
    with contextlib.suppress(ProcessLookupError):
        await process.wait()
    await asyncio.sleep(disturbance.downtime_s)
    process.ready_s_max = READY_S_MAX
    await process.restart()
