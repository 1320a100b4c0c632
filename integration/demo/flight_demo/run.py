"""The run: the stages in their order.

::

    flights.csv -> events -> producer -> broker-a, broker-b : flights -> two consumers -> ledgers
                                                       |                                    |
                                                       +-> Spark -> delays -> consumer      |
                                                                                  |         |
    closed form ------------------------------------------------------> compared with all of it
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from ariane_sdk import ClusterClient, Producer, ProducerSettings, QueueReader
from ariane_servicekit.running.processes import LocalCluster
from flight_demo.checks import Check
from flight_demo.children import Child, child
from flight_demo.closed_form import Expectation
from flight_demo.events import FlightEvent, in_event_time_order, iter_events
from flight_demo.flights import Flight, package_folder, read_airlines, read_flights
from flight_demo.machine import check_machine
from flight_demo.picture import draw_delays
from flight_demo.selection import Selection
from flight_demo.stages import Stage, Stages
from flight_demo.totals import Findings, SparkTotals, all_checks
from flight_demo.work.delays import ReceivedStatistics, consume_statistics
from flight_demo.work.failover import REPLICAS, Primaries
from flight_demo.work.group import MEMBERS, GroupTotals, consumer_group
from flight_demo.work.late import consume_late, ways
from flight_demo.work.publish import Sabotage, publish, sabotaged
from flight_demo.work.spark_job import SparkOrders
from flight_demo.work.uploads import upload_filters

FLIGHTS, DELAYS = "flights", "delays"
BOARD, LATE_WATCHERS, STATISTICIANS = "departure-board", "late-watchers", "statisticians"
BROKERS, QUEUES_A_BROKER = 2, 4
PUBLISHING, CONSUMING = 0, 1
"""Which broker loses its primary while events are published, and while they are consumed."""

_SEND_S_MAX = 60.0
"""Longer than a replica takes to take over."""

_BROKER_FLAGS = (
    # A year takes some 300 MB on each broker, but two segments of the usual 1 GiB would be taken.
    *("--segment-bytes", str(128 << 20)),
    # On a disk that is nearly full a broker gives up its oldest segments and then refuses messages.
    # Here that would be a loss which is nobody's fault; that there is room is checked beforehand.
    *("--disk-clean-ratio", "1", "--disk-force-ratio", "1", "--disk-refuse-ratio", "1"),
)

_FLIGHTS_BETWEEN_REPORTS = 20_000


@dataclass(frozen=True, slots=True)
class RunOrders:
    """What a run shall do."""

    selection: Selection
    picture_path: Path
    sabotage: Sabotage | None = None

    kill_primaries: bool = False
    """Whether brokers have replicas, and lose their primaries in the middle."""

    trace: bool = False
    """Whether an error shall show where it came from."""


async def run(orders: RunOrders, stages: Stages, folder: Path) -> list[Check]:
    """Run all stages and return every total.

    Args:
        orders: What to do.
        stages: Where progress is shown and remembered.
        folder: Everything that is written goes here, but for the picture.

    Raises:
        DemoError: A stage cannot go on.
        ProcessFailed: A service did not start.
        ArianeError: The cluster refused something.
    """
    check_machine(folder)
    async with AsyncExitStack() as stack:
        with stages.stage(
            "start name server, brokers, FilterServers", unit="processes", rated=False
        ) as stage:
            cluster = LocalCluster(
                folder / "cluster",
                brokers=BROKERS,
                replicas=REPLICAS if orders.kill_primaries else 0,
                filter_servers=1,
                extra_broker_args=_BROKER_FLAGS,
            )
            name_servers = (await stack.enter_async_context(cluster)).name_servers
            client = await stack.enter_async_context(ClusterClient(name_servers))
            for topic in (FLIGHTS, DELAYS):
                await client.create_topic(topic, queue_count=QUEUES_A_BROKER)
            primaries = Primaries(cluster) if orders.kill_primaries else None
            if primaries is not None:
                await primaries.wait_in_sync()
            stage.reach(len(cluster.processes))
        # Its Java machine takes seconds to start, and may do so while others are at work.
        spark_orders = SparkOrders(name_servers, FLIGHTS, DELAYS, folder / "spark")
        spark_job = await stack.enter_async_context(_spark_child(spark_orders, folder))
        flights = _read(orders.selection, stages)
        expected = Expectation.of(flights)
        reader = await stack.enter_async_context(QueueReader(name_servers))
        on_stage = _Cast(name_servers, reader, stages, folder, primaries)
        events = _events(flights, orders.sabotage)
        acknowledged, group = await on_stage.publish_and_consume(events, expected.totals.events)
        # The flights have done their part; others can use the room.
        del flights, events
        late = await on_stage.consume_late()
        spark = await on_stage.run_spark(spark_job, expected.totals.events)
        delays = await on_stage.consume_delays(spark.messages)
        found = Findings(
            acknowledged=acknowledged,
            stored=await on_stage.stored(FLIGHTS),
            group=group,
            behind=await on_stage.behind(BOARD, FLIGHTS),
            late=late,
            spark=spark,
            delays_stored=await on_stage.stored(DELAYS),
            delays=delays,
            takeovers=None if primaries is None else primaries.takeovers,
        )
    with stages.stage("draw the delays", unit="statistics", rated=False) as stage:
        airlines = read_airlines(package_folder())
        draw_delays(delays.by_key, airlines, orders.picture_path, cache_folder=folder)
        stage.reach(len(delays.by_key))
    return all_checks(expected, found, whole_year=orders.selection.whole_year)


def _read(selection: Selection, stages: Stages) -> Sequence[Flight]:
    with stages.stage("read the flights of 2013", unit="flights") as stage:

        def counted() -> Iterator[Flight]:
            count = 0
            for count, flight in enumerate(read_flights(package_folder()), start=1):
                if count % _FLIGHTS_BETWEEN_REPORTS == 0:
                    stage.reach(count)
                yield flight
            stage.reach(count)

        flights = selection.choose(counted())
    # They stay until the end: a collection need not look at them again and again.
    gc.freeze()
    return flights


def _events(flights: Sequence[Flight], sabotage: Sabotage | None) -> Iterator[FlightEvent]:
    events = iter_events(flights, in_event_time_order(flights))
    return events if sabotage is None else sabotaged(events, sabotage)


def _spark_child(orders: SparkOrders, folder: Path) -> AbstractAsyncContextManager[Child]:
    """Spark's process, which starts a session and then waits for ``go``."""
    orders.folder.mkdir()
    return child(
        "spark",
        "flight_demo.work.spark_job",
        orders.to_arguments(),
        folder=folder,
        environment={"TMPDIR": str(orders.folder)},
    )


class _Cast:
    """The stages that play on a running cluster."""

    def __init__(
        self,
        name_servers: str,
        reader: QueueReader,
        stages: Stages,
        folder: Path,
        primaries: Primaries | None,
    ) -> None:
        self._name_servers = name_servers
        self._reader = reader
        self._stages = stages
        self._folder = folder
        self._primaries = primaries

    async def publish_and_consume(
        self, events: Iterator[FlightEvent], event_count: int
    ) -> tuple[int, GroupTotals]:
        """Return how many events were acknowledged and what the group saw of them."""
        bounds = await self._reader.bounds(FLIGHTS)
        async with consumer_group(
            self._name_servers, FLIGHTS, BOARD, event_count, self._folder
        ) as group:
            with self._stages.stage(
                "two consumers share the queues", unit="queues", rated=False
            ) as stage:
                await group.wait_assigned([str(queue) for queue in bounds], stage)
                stage.reach(len(bounds))
            with self._stages.stage(
                "publish in event-time order", total=event_count, unit="events"
            ) as stage:
                self._kill_in_the_middle(stage, event_count, PUBLISHING)
                patience = ProducerSettings(send_timeout_s=_SEND_S_MAX)
                async with Producer(
                    self._name_servers, group="airports", settings=patience
                ) as producer:
                    acknowledged = await publish(producer, FLIGHTS, events, stage)
                    stage.finish()
                await self._settle()
            with self._stages.stage(
                f"consume with {MEMBERS} processes", total=event_count, unit="events"
            ) as stage:
                self._kill_in_the_middle(stage, event_count, CONSUMING)
                await group.go()
                await group.follow(stage, min(acknowledged, event_count))
                stage.finish()
                await self._settle()
            return acknowledged, await group.settle()

    def _kill_in_the_middle(self, stage: Stage, event_count: int, place: int) -> None:
        """Kill the primary of a broker once a stage has done half, in runs that kill some."""
        primaries = self._primaries
        if primaries is not None:
            stage.at(event_count // 2, lambda: primaries.kill(place))

    async def _settle(self) -> None:
        """Wait until each killed primary has a successor."""
        if self._primaries is not None:
            await self._primaries.settle()

    async def consume_late(self) -> dict[str, tuple[int, int]]:
        """Return how many late departures each way of filtering let through."""
        with self._stages.stage("upload two filters", unit="filters", rated=False) as stage:
            uploaded = await upload_filters(self._name_servers, self._folder)
            # Where the kernel has no jail, the table says 0; conditions and functions remain.
            stage.reach(len(uploaded))
        found = {}
        for number, (name, way) in enumerate(ways(uploaded).items()):
            with self._stages.stage(f"late departures, by {name}", unit="events") as stage:
                group = f"{LATE_WATCHERS}-{number}"
                found[name] = await consume_late(self._name_servers, FLIGHTS, group, way, stage)
        return found

    async def run_spark(self, job: Child, event_count: int) -> SparkTotals:
        """Let Spark read the flights and write the delays."""
        with self._stages.stage(
            "wait until Spark has started", unit="session", rated=False
        ) as stage:
            async for _ in job.hear_until("session"):
                stage.reach(1)
        await job.tell("go")
        with self._stages.stage("Spark reads and aggregates", unit="events") as stage:
            async for line in job.hear_until("read"):
                if line["event"] == "tasks":
                    stage.note(f"{line['done']} of {line['total']} tasks, {event_count:,} events")
            events, illegible = int(line["events"]), int(line["illegible"])
            stage.reach(events)
        with self._stages.stage("Spark writes the delays", unit="messages") as stage:
            async for line in job.hear_until("written"):
                if line["event"] == "written":
                    stage.reach(line["rows"])
            messages = stage.count
        return SparkTotals(events, illegible, messages)

    async def consume_delays(self, message_count: int) -> ReceivedStatistics:
        """Return what the topic ``delays`` says."""
        with self._stages.stage(
            "consume the delays", total=message_count, unit="messages"
        ) as stage:
            return await consume_statistics(
                self._name_servers, DELAYS, STATISTICIANS, message_count, stage
            )

    async def stored(self, topic: str) -> int:
        """Return how many messages `topic` holds."""
        bounds = await self._reader.bounds(topic)
        return sum(end - begin for begin, end in bounds.values())

    async def behind(self, group: str, topic: str) -> int:
        """Return how many messages of `topic` lie behind what `group` has stored."""
        bounds = await self._reader.bounds(topic)
        offsets = await self._reader.stored_offsets(group, topic)
        return sum(end - offsets.get(queue, begin) for queue, (begin, end) in bounds.items())
