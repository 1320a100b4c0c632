"""A gateway inside the test's own loop, before a real broker, and clients of its protocol."""

import itertools
from contextlib import AsyncExitStack

import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb
from apache.rocketmq.v2.service_pb2_grpc import MessagingServiceStub
from ariane.broker.v1.group_service_pb2 import ConsumerGroup, CreateConsumerGroupRequest
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub
from ariane_gateway.app import GatewayApp
from ariane_gateway.settings import GatewaySettings
from ariane_servicekit import Address, serving

_numbers = itertools.count(1)


def seconds(number):
    duration = Duration()
    duration.FromMilliseconds(round(number * 1000))
    return duration


class Client:
    """What every official client does, by the raw stub."""

    def __init__(self, address, client_id=None, channel=None):
        self.client_id = client_id or f"client-{next(_numbers)}"
        self.address = Address.parse(address)
        self.metadata = [("x-mq-client-id", self.client_id), ("x-mq-language", "PYTHON")]
        self.channel = channel or aio.insecure_channel(address)
        self.stub = MessagingServiceStub(self.channel)
        self.endpoints = dp.Endpoints(
            scheme=dp.IPv4,
            addresses=[dp.Address(host=self.address.host, port=self.address.port)],
        )

    async def call(self, method, request):
        return await getattr(self.stub, method)(request, metadata=self.metadata, timeout=20)

    async def queues(self, topic):
        request = pb.QueryRouteRequest(topic=dp.Resource(name=topic), endpoints=self.endpoints)
        return await self.call("QueryRoute", request)

    @staticmethod
    def message(topic, body=b"a teapot", kind=dp.NORMAL, properties=None, **system):
        return dp.Message(
            topic=dp.Resource(name=topic),
            body=body,
            user_properties=properties or {},
            system_properties=dp.SystemProperties(
                message_id=f"01ABCDEF{next(_numbers):026d}",
                message_type=kind,
                body_encoding=dp.IDENTITY,
                **system,
            ),
        )

    async def send(self, topic, *arguments, **options):
        sent = await self.send_messages(self.message(topic, *arguments, **options))
        assert sent.status.code == dp.OK, sent
        return sent.entries[0]

    async def send_messages(self, *messages):
        return await self.call("SendMessage", pb.SendMessageRequest(messages=messages))

    @staticmethod
    def receive_request(
        topic,
        group,
        broker,
        *,
        hold_s=0.0,
        invisible_s=30.0,
        count=32,
        filter_expression=None,
        **options,
    ):
        queue = dp.MessageQueue(topic=dp.Resource(name=topic), id=-1, broker=dp.Broker(name=broker))
        return pb.ReceiveMessageRequest(
            group=dp.Resource(name=group),
            message_queue=queue,
            batch_size=count,
            invisible_duration=seconds(invisible_s),
            long_polling_timeout=seconds(hold_s),
            filter_expression=filter_expression or dp.FilterExpression(type=dp.TAG, expression="*"),
            **options,
        )

    async def receive(self, topic, group, *, broker=None, deadline_s=30, **options):
        """Status and messages."""
        if broker is None:
            broker = (await self.queues(topic)).message_queues[0].broker.name
        request = self.receive_request(topic, group, broker, **options)
        call = self.stub.ReceiveMessage(request, metadata=self.metadata, timeout=deadline_s)
        answers = [answer async for answer in call]
        assert answers[0].WhichOneof("content") == "status"
        messages = [a.message for a in answers if a.WhichOneof("content") == "message"]
        return answers[0].status, messages

    async def ack(self, topic, group, *messages):
        return await self.call(
            "AckMessage",
            pb.AckMessageRequest(
                group=dp.Resource(name=group),
                topic=dp.Resource(name=topic),
                entries=[
                    pb.AckMessageEntry(
                        message_id=each.system_properties.message_id,
                        receipt_handle=each.system_properties.receipt_handle,
                    )
                    for each in messages
                ],
            ),
        )


@pytest.fixture
async def start_gateway(ariane_cluster):
    """Start gateways before the session's broker."""
    stacks = []

    async def start(**changes):
        life = AsyncExitStack()
        stacks.append(life)
        values = {
            "listen": Address("127.0.0.1", 0),
            "name_servers": ariane_cluster.name_servers,
            "grace_s": 0.1,
        }
        address = await life.enter_async_context(
            serving(GatewaySettings(**(values | changes)), GatewayApp)
        )
        return str(address), life.aclose

    yield start
    for stack in reversed(stacks):
        await stack.aclose()


@pytest.fixture
async def connect():
    """Make clients of a gateway."""
    made = []

    def make(address, client_id=None, channel=None):
        made.append(Client(address, client_id, channel))
        return made[-1]

    yield make
    for client in made:
        await client.channel.close()


@pytest.fixture
async def client(start_gateway, connect):
    """A client of a gateway of its own."""
    address, _ = await start_gateway()
    return connect(address)


@pytest.fixture
def group():
    """A consumer group that no other test knows."""
    return f"gateway-group-{next(_numbers)}"


@pytest.fixture
def make_group(ariane_cluster, group):
    """Make the test's group, with settings."""

    async def make(**settings):
        async with aio.insecure_channel(ariane_cluster.broker_address) as channel:
            wanted = ConsumerGroup(
                consumer_group=group, consume_enabled=True, broadcast_enabled=True, **settings
            )
            await GroupServiceStub(channel).CreateConsumerGroup(
                CreateConsumerGroupRequest(group=wanted)
            )
        return group

    return make
