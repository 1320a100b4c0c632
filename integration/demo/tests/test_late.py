"""Late departures: each way of filtering finds what the flights say."""

import io
import json

from flight_demo.events import in_event_time_order, iter_events
from flight_demo.flights import package_folder, read_flights
from flight_demo.late import CONDITION, WAYS, consume_late, count_late
from flight_demo.publish import publish
from flight_demo.stages import LineDisplay, Stages
from rich.console import Console

from ariane_sdk import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster


def test_the_condition_says_what_the_function_does():
    flights = [
        flight for flight, _ in zip(read_flights(package_folder()), range(3000), strict=False)
    ]
    late = [
        event
        for event in iter_events(flights, in_event_time_order(flights))
        if event.properties
        and event.properties["origin"] == "JFK"
        and int(event.properties["dep_delay"]) > 60
    ]
    assert "JFK" in CONDITION
    assert len(late) == count_late(flights) > 10
    assert all(json.loads(event.body)["departure_delay"] > 60 for event in late)


async def test_each_way_finds_them_all_and_no_others(tmp_path):
    flights = [
        flight for flight, _ in zip(read_flights(package_folder()), range(3000), strict=False)
    ]
    events = iter_events(flights, in_event_time_order(flights))
    stages = Stages(LineDisplay(Console(file=io.StringIO())))
    flags = ("--segment-bytes", str(64 << 20))
    async with (
        LocalCluster(tmp_path, extra_broker_args=flags) as cluster,
        ClusterClient(cluster.name_servers) as client,
        Producer(cluster.name_servers) as producer,
    ):
        await client.create_topic("flights")
        with stages.stage("all", unit="events") as stage:
            await publish(producer, "flights", events, stage)
            for number, way in enumerate(WAYS):
                names = cluster.name_servers, "flights", f"late-{number}", way
                assert await consume_late(*names, stage) == (count_late(flights), 0), way
