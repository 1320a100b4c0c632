"""Many gateways behind a balancer, and one that stops: none holds anything that another lacks."""

import asyncio
import itertools

from grpc import aio

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb


class Dealing:
    """A stub whose every call goes to the next gateway."""

    def __init__(self, clients):
        self._turns = itertools.cycle(clients)

    def __getattr__(self, method):
        return getattr(next(self._turns).stub, method)


async def test_every_call_may_go_to_another_gateway(
    start_gateway, connect, ariane_topic, ariane_clock, group
):
    gateways = [connect((await start_gateway())[0], "client-of-all") for _ in range(3)]
    client = gateways[0]
    client.stub = Dealing(gateways)
    beat = pb.HeartbeatRequest(group=dp.Resource(name=group), client_type=dp.PUSH_CONSUMER)
    for number in range(4):
        await client.send(ariane_topic, b"%d" % number)
    half = await client.send(ariane_topic, b"half", dp.TRANSACTION)
    end = pb.EndTransactionRequest(
        topic=dp.Resource(name=ariane_topic),
        message_id=half.message_id,
        transaction_id=half.transaction_id,
        resolution=dp.COMMIT,
    )
    assert (await client.call("EndTransaction", end)).status.code == dp.OK
    received = []
    for _ in range(5):
        assert (await client.call("Heartbeat", beat)).status.code == dp.OK
        _, (message,) = await client.receive(ariane_topic, group, count=1, hold_s=5)
        received.append(message.body)
        request = pb.ChangeInvisibleDurationRequest(
            group=dp.Resource(name=group),
            topic=dp.Resource(name=ariane_topic),
            receipt_handle=message.system_properties.receipt_handle,
        )
        request.invisible_duration.FromSeconds(300)
        changed = await client.call("ChangeInvisibleDuration", request)
        message.system_properties.receipt_handle = changed.receipt_handle
        assert (await client.ack(ariane_topic, group, message)).status.code == dp.OK
    assert sorted(received) == [b"0", b"1", b"2", b"3", b"half"]


async def test_a_gateway_that_stops_answers_held_receives_and_ends_streams(
    start_gateway, connect, ariane_topic, group
):
    address, stop = await start_gateway(grace_s=5)
    client = connect(address)
    stream = client.stub.Telemetry(metadata=client.metadata, timeout=60)
    subscription = dp.Subscription(group=dp.Resource(name=group))
    await stream.write(pb.TelemetryCommand(settings=dp.Settings(subscription=subscription)))
    assert (await stream.read()).status.code == dp.OK
    receiving = asyncio.ensure_future(client.receive(ariane_topic, group, hold_s=20))
    await asyncio.sleep(0.1)
    stopping = asyncio.ensure_future(stop())
    async with asyncio.timeout(10):
        status, messages = await receiving
        assert (status.code, messages) == (dp.MESSAGE_NOT_FOUND, [])
        goodbye = await stream.read()
        assert goodbye.WhichOneof("command") == "reconnect_endpoints_command"
        assert await stream.read() is aio.EOF
        assert (await stream.code()).name == "OK"
        await stopping
