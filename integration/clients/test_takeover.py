"""The primary is killed under each client, which finds the new one, with what it has in hand."""

from __future__ import annotations

import base64
import time

import pytest
from languages import COMMANDS, Worker, build, missing

from ariane.replication.v1.replica_set_service_pb2 import GetReplicaSetRequest
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.closed_clusters import open_blocking_channel

QUICK = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "2", "--no-auto-create-topics")
PATIENCE_S = 60.0
TOPIC = "jobs"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def message(number: int) -> dict[str, object]:
    return {
        "topic": TOPIC,
        "body": base64.b64encode(b"%d" % number).decode(),
        "tag": "",
        "keys": [],
        "group": "",
        "properties": {},
        "id": "",
    }


def wait_in_sync(cluster: LocalCluster) -> None:
    with open_blocking_channel(cluster.brokers[0].address) as channel:
        stub = ReplicaSetServiceStub(channel)
        end = time.monotonic() + PATIENCE_S
        while len(stub.GetReplicaSet(GetReplicaSetRequest()).replica_set.in_sync_broker_ids) < 2:
            assert time.monotonic() < end
            time.sleep(0.1)


def received(worker: Worker, count: int) -> dict[int, int]:
    """So many messages; the handle of each, by its number."""
    found: dict[int, int] = {}
    end = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < end, f"{sorted(found)} have come, of {count}"
        for each in worker.ask("receive", topic=TOPIC, group="waiters", wait_ms=2000):
            number = int(base64.b64decode(each["body"]))
            assert number not in found, f"{number} came twice"
            found[number] = each["number"]
    return found


# Calls of the Python client end with their own timeout: its takeovers are in integration/scenarios.
@pytest.mark.parametrize("language", [each for each in COMMANDS if each != "python"])
def test_a_client_goes_on_at_who_has_taken_over(language, tmp_path):
    if lacks := missing(language):
        pytest.skip(f"{lacks} is not on this machine")
    build(language)
    with (
        LocalCluster(tmp_path, replicas=1, extra_broker_args=QUICK) as cluster,
        Worker(language) as worker,
    ):
        wait_in_sync(cluster)
        with ClusterClient(cluster.name_servers.split(",")) as client:
            client.create_topic(TOPIC, queue_count=2)
        worker.ask("connect", name_servers=cluster.name_servers.split(","))
        for number in range(8):
            worker.ask("send", messages=[message(number)])
        in_hand = received(worker, 8)
        worker.ask("transactions", group="tellers", topic=TOPIC)
        began = [worker.ask("begin", group="tellers", messages=[message(n)]) for n in (20, 21)]
        # The hand-outs are on the replica as soon as something behind them is confirmed.
        worker.ask("ack", numbers=[in_hand[0]])
        [first] = cluster.brokers
        first.kill()
        cluster.call_blocking(first.wait)
        worker.ask("ack", numbers=[in_hand[number] for number in (1, 2, 3)])
        worker.ask("extend", numbers=[in_hand[4]], invisible_ms=3_600_000)
        worker.ask("nack", numbers=[in_hand[number] for number in (5, 6)])
        worker.ask("commit", numbers=[began[0]["number"]])
        worker.ask("rollback", numbers=[began[1]["number"]])
        worker.ask("send", messages=[message(30) | {"group": "table-7"}])
        again = received(worker, 4)
        assert sorted(again) == [5, 6, 20, 30]
        worker.ask("ack", numbers=[*again.values(), in_hand[4], in_hand[7]])
        assert worker.ask("receive", topic=TOPIC, group="waiters", wait_ms=1000) == []
