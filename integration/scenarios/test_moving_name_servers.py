"""Name servers come and go while brokers and clients run."""

import asyncio
from random import Random

import pytest

from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_sdk import ClusterClient, Message, Producer, errors
from ariane_sdk.routing import name_servers
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE
from ariane_txn_checker.rpc.remote_brokers import RemoteBrokers

LOOK = ("--name-server-reread-s", "0.1")


class Moving(LocalCluster):
    """A broker that finds its name servers in a file only."""

    def _broker(self, name, broker_id=0):
        process = super()._broker(name, broker_id)
        flag = process.arguments.index("--name-servers")
        rest = (*process.arguments[:flag], *process.arguments[flag + 2 :])
        source = f"file:{self.data_path / 'names'}"
        process.arguments = (*rest, "--name-servers", source, *LOOK)
        return process


@pytest.mark.never_closed("it asks as a checker, for which its process has no certificate")
async def test_name_servers_are_added_and_removed_without_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr(name_servers, "REREAD_S", 0.1)
    names = tmp_path / "names"
    names.write_text("127.0.0.1:1")
    async with Moving(tmp_path, name_servers=2, extra_broker_args=SMALL_STORE) as cluster:
        first, second = (each.address for each in cluster.name_server_processes)
        names.write_text(f"{first}\n")

        async def known(address):
            async with ClusterClient(address) as client:
                return [each.broker_name for each in await client.list_brokers()]

        async def comes_to(address, expected):
            async with asyncio.timeout(60):
                while await known(address) != expected:  # noqa: ASYNC110 - nobody tells.
                    await asyncio.sleep(0.05)

        await comes_to(first, ["broker-a"])
        checked = RemoteBrokers([f"file:{names}"], answer_ms_max=1000, chance=Random(1))
        await checked.refresh()
        assert [key.broker_name for key in checked.keys] == ["broker-a"]
        async with (
            Producer(f"file:{names}") as producer,
            ClusterDoors(f"file:{names}") as doors,
            ClusterClient(first) as client,
        ):
            assert doors.name_servers == (first,)
            await client.create_topic("orders", queue_count=1)
            await producer.send(Message("orders", b"one"))
            names.write_text(f"{second}\n")
            await comes_to(second, ["broker-a"])
            await comes_to(first, [])
            await doors.find_name_servers()
            assert doors.name_servers == (second,)
            await checked.refresh()
            cluster.name_server_processes[0].kill()
            # A topic that it does not know yet: it must ask a name server.
            async with ClusterClient(second) as other:
                await other.create_topic("bills", queue_count=1)
            async with asyncio.timeout(60):
                while True:
                    try:
                        await producer.send(Message("bills", b"two"))
                    except (errors.NameServersUnreachable, errors.RouteNotFound):
                        await asyncio.sleep(0.05)
                    else:
                        break
            await checked.refresh()
            assert [key.broker_name for key in checked.keys] == ["broker-a"]
            assert [each.broker_name for each in await doors.primaries()] == ["broker-a"]
            await checked.close()


async def test_without_any_name_server_a_client_says_why(tmp_path):
    with pytest.raises(errors.NameServersUnreachable, match="missing"):
        async with ClusterClient(f"file:{tmp_path / 'missing'}") as client:
            await client.list_brokers()
