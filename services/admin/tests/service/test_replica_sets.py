"""A broker with a replica, through the service and the console."""

import asyncio
import json

import pytest
from grpc.aio import AioRpcError

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import replica_set_service_pb2 as set_pb
from ariane.admin.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def own_cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicas")
    with LocalCluster(folder, replicas=1, extra_broker_args=SMALL_STORE) as running:
        yield running


async def standing(stub, primary_id):
    """The members, once a broker is primary and both are in sync."""
    async with asyncio.timeout(120):
        while True:
            asked = set_pb.GetReplicaSetRequest(broker_name="broker-a")
            try:
                members = (await stub.GetReplicaSet(asked)).members
            except AioRpcError:  # Between two primaries nobody is registered.
                members = []
            states = [each.state for each in members if each.HasField("state")]
            leading = [state for state in states if state.has_lease]
            found = [(s.broker_id, len(s.replica_set.in_sync_broker_ids)) for s in leading]
            if found == [(primary_id, 2)]:
                return members
            await asyncio.sleep(0.1)


async def test_the_primary_is_handed_on_and_back(own_cluster, admin, browser, entries):
    stub = ReplicaSetServiceStub(admin)
    members = await standing(stub, 0)
    assert len(members) == 2
    page = await browser.get("/cluster/broker-a")
    assert "Replicas" in page.text
    request = set_pb.TransferPrimaryRequest(broker_name="broker-a", target_broker_id=1)
    request.grace.FromSeconds(15)
    await stub.TransferPrimary(request)
    await standing(stub, 1)
    [entry] = await entries(method="TransferPrimary")
    assert (entry.resource_name, entry.outcome) == ("broker-a", audit_pb.AUDIT_OUTCOME_DONE)
    assert "members" in entry.before_json
    done = await browser.change("/cluster/switchover", broker="broker-a", id="0")
    assert "takes over as primary" in done.text, done.text
    await standing(stub, 0)


async def test_a_dry_run_tells_how_the_broker_stands_and_changes_nothing(own_cluster, admin, capfd):
    stub = ReplicaSetServiceStub(admin)
    await standing(stub, 0)

    async def told(word, *options):
        capfd.readouterr()
        words = ("broker", "ha", word, "broker-a", *options, "--dry-run", "-o", "json")
        servers = ("--name-servers", own_cluster.name_servers)
        ended = await asyncio.to_thread(main, [*words, *servers])
        return ended, capfd.readouterr()

    for word, option in (("switchover", "--to"), ("elect", "--id"), ("remove", "--id")):
        ended, written = await told(word, option, "1")
        assert ended == ExitStatus.DONE, written.err
        row = json.loads(written.out)
        assert (row["broker"], row["id"], row["role"]) == ("broker-a", 1, "replica")
        assert (row["in_sync"], row["attached"], row["dry_run"]) == (True, True, True)
        ended, written = await told(word, option, "7")
        assert ended == ExitStatus.NOT_FOUND
        assert "broker-a has no broker 7; its ids are 0, 1" in written.err
    assert len(await standing(stub, 0)) == 2
