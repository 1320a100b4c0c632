"""Zones that real brokers state, as members of a group use them."""

import asyncio

import pytest

from ariane_sdk import ClusterClient, MachineRoom, MachineRoomNearby, PushConsumer, PushSettings
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

ZONES = {"broker-a": "north", "broker-b": "south"}


class ZonedCluster(LocalCluster):
    """Two brokers in two zones."""

    def _broker(self, name, broker_id=0):
        process = super()._broker(name, broker_id)
        process.arguments += ("--zone", ZONES[name])
        return process


@pytest.fixture
async def cluster(tmp_path):
    async with ZonedCluster(tmp_path, brokers=2, extra_broker_args=SMALL_STORE) as running:
        async with ClusterClient(running.name_servers) as client:
            await client.create_topic("orders", queue_count=2)
        yield running


async def test_members_own_what_their_rooms_say(cluster):
    async def listen(_messages):
        """Takes everything."""

    def member(group, strategy, zone=""):
        return PushConsumer(
            cluster.name_servers,
            group=group,
            subscriptions={"orders": "*"},
            listener=listen,
            strategy=strategy,
            settings=PushSettings(zone=zone, rebalance_gap_s_min=0.05, handover_s=0.05),
        )

    def brokers_of(consumer):
        return sorted(queue.broker_name for queue in consumer.assignment)

    async def come_to_own(members, expected):
        async with asyncio.timeout(60):
            while [brokers_of(one) for one in members] != expected:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    both = ["broker-a"] * 2 + ["broker-b"] * 2
    async with member("north", MachineRoom(["north"])) as one:
        await come_to_own([one], [["broker-a"] * 2])
    async with member("west", MachineRoom(["west"])) as one:
        await come_to_own([one], [both])
    async with member("near", MachineRoomNearby(), "south") as south:
        await come_to_own([south], [both])
        async with member("near", MachineRoomNearby(), "north") as north:
            await come_to_own([north, south], [["broker-a"] * 2, ["broker-b"] * 2])
        await come_to_own([south], [both])
