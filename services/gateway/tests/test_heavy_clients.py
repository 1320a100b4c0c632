"""Clients that say very much have room, and leave room to others, for as long as it is kept."""

from contextlib import suppress

import pytest
from grpc.aio import AioRpcError

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb
from ariane_gateway.app import GatewayApp
from ariane_gateway.clients import client_table
from ariane_gateway.settings import GatewaySettings
from ariane_servicekit import Address, serving
from services.gateway.tests.test_signatures import sign

USERS = ["anna", "bert", "carl", "dora", "emil", "fred"]
TOPICS = [dp.Resource(name=f"{number:04}-{'x' * 95}") for number in range(500)]
HEAVY = dp.Settings(publishing=dp.Publishing(topics=TOPICS))
WEIGHT = 500 * (100 + 16)
SMALL = dp.Settings(publishing=dp.Publishing(topics=TOPICS[:1]))
NO_GROUP = dp.Settings(subscription=dp.Subscription(group=dp.Resource(name="a b")))
LEAVE = pb.NotifyClientTerminationRequest()


class Talker:
    """A client with its stream."""

    def __init__(self, client):
        self.client = client
        self.begin()

    def begin(self):
        self.stream = self.client.stub.Telemetry(metadata=self.client.metadata, timeout=60)

    async def says(self, settings):
        await self.stream.write(pb.TelemetryCommand(settings=settings))
        return (await self.stream.read()).status.code

    async def end(self):
        """End the stream, and know that the gateway has."""
        await self.stream.done_writing()
        with suppress(AioRpcError):
            await self.stream.read()

    async def leave(self):
        assert (await self.client.call("NotifyClientTermination", LEAVE)).status.code == dp.OK


@pytest.fixture
async def gateway(ariane_cluster, tmp_path, monkeypatch):
    """A gateway with room for ten heavy clients, two of them of one user, and its clients."""
    monkeypatch.setattr(client_table, "HEAVY_WEIGHT_MAX", 10 * WEIGHT)
    keys = tmp_path / "keys"
    keys.write_text("".join(f"{user}:secret\n" for user in USERS))
    made = []

    def compose(settings, stop):
        made.append(GatewayApp(settings, stop))
        return made[-1]

    settings = GatewaySettings(
        listen=Address("127.0.0.1", 0),
        name_servers=ariane_cluster.name_servers,
        grace_s=0.1,
        access_keys=keys,
    )
    async with serving(settings, compose) as address:
        yield str(address), made[0].clients


@pytest.fixture
def talk(gateway, connect):
    """Make clients of a user."""
    address, _ = gateway
    return lambda user: Talker(sign(connect(address), user, "secret"))


async def test_heavy_clients_of_a_user_of_a_gateway_leave_room_to_others(talk):
    talkers = [talk(user) for user in USERS for _ in range(3)]
    codes = [await each.says(HEAVY) for each in talkers]
    refused = dp.TOO_MANY_REQUESTS
    assert codes == [dp.OK, dp.OK, refused] * 5 + [refused] * 3
    # What is small comes in, and who says the same again stays.
    assert await talk("anna").says(SMALL) == dp.OK
    assert await talkers[0].says(HEAVY) == dp.OK
    assert await talkers[0].says(SMALL) == dp.OK
    assert await talk("fred").says(HEAVY) == dp.OK


async def test_what_a_client_has_said_counts_until_it_is_gone(talk, gateway):
    first, second, third = talk("anna"), talk("anna"), talk("anna")
    for each in (first, second):
        assert await each.says(HEAVY) == dp.OK
        await each.end()
    _, clients = gateway
    assert len(clients.find(second.client.client_id).produces) == 500
    assert await third.says(HEAVY) == dp.TOO_MANY_REQUESTS
    await first.leave()
    third.begin()
    assert await third.says(HEAVY) == dp.OK
    # Who says goodbye and goes on keeps what he has said.
    await third.leave()
    assert clients.find(third.client.client_id) is None
    assert await talk("anna").says(HEAVY) == dp.TOO_MANY_REQUESTS
    await third.end()
    assert await talk("anna").says(HEAVY) == dp.OK


async def test_settings_that_are_refused_change_nothing_of_what_counts(talk, gateway):
    talkers = [talk("anna"), talk("anna")]
    _, clients = gateway
    for each in talkers:
        assert await each.says(HEAVY) == dp.OK
        assert await each.says(NO_GROUP) == dp.ILLEGAL_CONSUMER_GROUP
        assert len(clients.find(each.client.client_id).produces) == 500
    assert await talk("anna").says(HEAVY) == dp.TOO_MANY_REQUESTS


async def test_a_client_is_what_it_has_said_last(talk, gateway, group):
    consumer = dp.Settings(subscription=dp.Subscription(group=dp.Resource(name=group)))
    talker = talk("anna")
    _, clients = gateway
    for settings in (HEAVY, consumer, HEAVY):
        assert await talker.says(settings) == dp.OK
        client = clients.find(talker.client.client_id)
        expected = (500, []) if settings is HEAVY else (0, [group])
        assert (len(client.produces), list(client.consumes)) == expected
        assert client.weight == (WEIGHT if settings is HEAVY else len(group))
