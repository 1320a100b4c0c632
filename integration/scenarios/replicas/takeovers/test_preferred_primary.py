"""The broker that operators prefer becomes primary: by command, by itself, and no send fails."""

from __future__ import annotations

import asyncio

import pytest
from replica_group import in_sync

from ariane.replication.v1.replica_pb2 import BrokerWish
from ariane_sdk import Message, Producer

QUICK = ("--primary-lease-s", "2.5")


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_preferred_broker_gets_the_role(local_cluster, ariane):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        second.arguments += ("--primary-preference", "5", "--preferred-return-s", "0.5")
        second.arguments += ("--zone", "near")
        await second.restart()
        failed = []
        async with Producer(cluster.name_servers) as producer:

            async def send():
                while True:
                    try:
                        await producer.send(Message("orders", b"x"))
                    except Exception as error:  # noqa: BLE001 - none may fail at all
                        failed.append(error)
                    await asyncio.sleep(0.02)

            sending = asyncio.create_task(send())
            async with asyncio.timeout(60):
                # Until it has joined again, the set has what it joined with at first.
                wish = BrokerWish()
                while wish != BrokerWish(preference=5, zone="near"):
                    wish = (await in_sync(first, 0, 1)).replica_set.wishes[1]
            balance = ("broker", "ha", "balance")
            status, said = await ariane(cluster, *balance, "--dry-run")
            assert (status, said[0]["outcome"]) == (0, "would switch over")
            assert (await in_sync(first, 0, 1)).replica_set.primary_broker_id == 0
            status, said = await ariane(cluster, *balance, "--yes")
            assert (status, said[0]["outcome"]) == (0, "done"), said
            await in_sync(second, 0, 1)
            status, said = await ariane(cluster, *balance, "--dry-run")
            assert (status, said) == (0, [])
            # More preferred than the present primary, which hands on its role by itself.
            first.arguments += ("--primary-preference", "9")
            await first.restart()
            await in_sync(first, 0, 1)
            sending.cancel()
        assert failed == []
