"""Streams go on without name servers: brokers need none to serve whoever knows where they are."""

import time
from collections import Counter

import pytest

from ariane_sdk import Message
from ariane_sdk.sync import ClusterClient, Producer, QueueReader
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

AWAY_S = 75
"""Longer than any route is believed, and all repetitions of one question take."""

COPIED_S_MAX = 120


def numbers_of(name_servers_reader, topic):
    found = Counter()
    for queue, (begin, end) in name_servers_reader.bounds(topic).items():
        for columns in name_servers_reader.read_range(queue, begin, end):
            found.update(int(columns.message(at).body) for at in range(len(columns)))
    return found


@pytest.mark.parametrize("target", ["option", "column"])
def test_a_stream_outlives_name_servers_and_starts_beside_a_young_one(
    spark, tmp_path, monkeypatch, target
):
    """Where rows say the topic, all brokers are asked for, and not those of a topic."""
    monkeypatch.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
    cluster = LocalCluster(tmp_path / "cluster", extra_broker_args=SMALL_STORE)
    with cluster, ClusterClient(cluster.name_servers) as client:
        monkeypatch.undo()
        for topic in ("flights", "copies"):
            client.create_topic(topic, queue_count=2)
        rows = (
            spark.readStream.format("ariane")
            .options(endpoints=cluster.name_servers, startingOffsets="earliest")
            .option("topicsPattern", "fligh.*")
            .load()
            .selectExpr("body", "'copies' AS topic")
        )
        given = {"endpoints": cluster.name_servers, "deliveryGuarantee": "exactly-once"}
        if target == "option":
            rows = rows.drop("topic")
            given["topic"] = "copies"

        def start():
            writer = rows.writeStream.format("ariane").options(**given)
            return (
                writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(processingTime="1 second")
                .start()
            )

        query = start()
        with (
            Producer(cluster.name_servers) as producer,
            QueueReader(cluster.name_servers) as reader,
        ):

            def copy(number):
                producer.send(Message("flights", b"%d" % number))
                deadline_s = time.monotonic() + COPIED_S_MAX
                while numbers_of(reader, "copies") != Counter(range(number + 1)):
                    assert query.isActive, str(query.exception())[-3000:]
                    assert time.monotonic() < deadline_s, numbers_of(reader, "copies")
                    time.sleep(0.2)

            copy(0)
            (name_server,) = cluster.name_server_processes
            cluster.call_blocking(name_server.stop)
            for number in range(1, 4):
                time.sleep(AWAY_S / 3)
                copy(number)
            query.stop()
            cluster.call_blocking(name_server.start)
            query = start()
            copy(4)
            query.stop()
