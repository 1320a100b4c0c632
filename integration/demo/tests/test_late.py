"""Late departures: each way of filtering finds what the flights say."""

import io
import json

import pytest
from flight_demo.errors import UploadFailed
from flight_demo.events import in_event_time_order, iter_events
from flight_demo.flights import package_folder, read_flights
from flight_demo.stages import LineDisplay, Stages
from flight_demo.work.late import CONDITION, consume_late, count_late, ways
from flight_demo.work.publish import publish
from flight_demo.work.uploads import answer_of, upload_filters
from rich.console import Console

from ariane_sdk import ClusterClient, Producer, Uploaded
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


@pytest.mark.slow
async def test_each_way_finds_them_all_and_no_others(tmp_path):
    flights = [
        flight for flight, _ in zip(read_flights(package_folder()), range(3000), strict=False)
    ]
    events = iter_events(flights, in_event_time_order(flights))
    stages = Stages(LineDisplay(Console(file=io.StringIO())))
    flags = ("--segment-bytes", str(64 << 20))
    async with (
        LocalCluster(tmp_path / "cluster", filter_servers=1, extra_broker_args=flags) as cluster,
        ClusterClient(cluster.name_servers) as client,
        Producer(cluster.name_servers) as producer,
    ):
        await client.create_topic("flights")
        with stages.stage("all", unit="events") as stage:
            await publish(producer, "flights", events, stage)
            uploaded = await upload_filters(cluster.name_servers, tmp_path)
            if not uploaded:
                pytest.skip("no jail here")
            for number, (name, way) in enumerate(ways(uploaded).items()):
                names = cluster.name_servers, "flights", f"late-{number}", way
                assert await consume_late(*names, stage) == (count_late(flights), 0), name
    assert len(uploaded) == 2


def test_only_a_missing_jail_is_no_failure():
    assert answer_of(0, b'{"filter": "late@3f2a9c1b5d6e"}', b"") == Uploaded("late@3f2a9c1b5d6e")
    no_jail = b"this machine cannot jail filters [FEATURE_NOT_AVAILABLE]"
    assert answer_of(1, b"", no_jail) is None
    with pytest.raises(UploadFailed, match="a module of 2 MiB"):
        answer_of(1, b"", b"a module of 2 MiB [FILTER_MODULE_INVALID]\n")
