"""A broker in the test's process that gives messages, each once, and takes acknowledgements."""

import asyncio
from contextlib import asynccontextmanager

import ariane_wire
from ariane.broker.v1.client_service_pb2 import AttachAccepted, AttachResponse
from ariane.broker.v1.client_service_pb2_grpc import (
    ClientServiceServicer,
    add_ClientServiceServicer_to_server,
)
from ariane.broker.v1.offset_service_pb2 import GetConsumerOffsetsResponse, QueueConsumerOffset
from ariane.broker.v1.offset_service_pb2_grpc import (
    OffsetServiceServicer,
    add_OffsetServiceServicer_to_server,
)
from ariane.broker.v1.receive_service_pb2 import (
    KeepInvisibleResponse,
    ReceiveRecordsResponse,
    SettledRecords,
    SettleRecordsResponse,
)
from ariane.broker.v1.receive_service_pb2_grpc import (
    ReceiveServiceServicer,
    add_ReceiveServiceServicer_to_server,
)
from sdk.python.tests.consumer.receiving.test_asking import encoded


class ReceivingBroker(ReceiveServiceServicer, ClientServiceServicer, OffsetServiceServicer):
    """Gives messages while there are some; holds calls then, until it is told to answer."""

    def __init__(self, count):
        self.left = list(range(count))
        self.settled = self.kept = 0
        self.address = ""
        self.calls = 0
        self.held = asyncio.Event()
        """A call is held."""
        self.goes_on = asyncio.Event()
        """Held calls are answered."""
        self.refusals = []
        """Statuses of the next calls."""

    async def ReceiveRecords(self, request, context):  # noqa: N802 - the contract's name.
        self.calls += 1
        if self.refusals:
            await context.abort(self.refusals.pop(0), "scripted")
        if not self.left:
            self.held.set()
            await self.goes_on.wait()
        count = min(len(self.left), request.order.message_count_max)
        if not count:
            return ReceiveRecordsResponse()
        begin = self.left[0]
        del self.left[:count]
        return ReceiveRecordsResponse.FromString(encoded(begin, count))

    async def SettleRecords(self, request, context):  # noqa: N802 - the contract's name.
        self.settled += len(request.settlements)
        return SettleRecordsResponse(results=[SettledRecords()] * len(request.settlements))

    async def KeepInvisible(self, request, context):  # noqa: N802 - the contract's name.
        self.kept += len(request.receipts)
        return KeepInvisibleResponse()

    async def GetConsumerOffsets(self, request, context):  # noqa: N802 - the contract's name.
        offsets = [
            QueueConsumerOffset(topic=each.topic, queue_id=each.queue_id, queue_offset=0)
            for each in request.queues
        ]
        return GetConsumerOffsetsResponse(offsets=offsets)

    async def Attach(self, requests, context):  # noqa: N802 - the contract's name.
        yield AttachResponse(accepted=AttachAccepted())
        async for _ in requests:
            pass


@asynccontextmanager
async def receiving_broker(world, count, name="broker-a"):
    """A broker of topic ``jobs``, beside those that the route has already."""
    broker, server = ReceivingBroker(count), ariane_wire.server()
    add_ReceiveServiceServicer_to_server(broker, server)
    add_ClientServiceServicer_to_server(broker, server)
    add_OffsetServiceServicer_to_server(broker, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    route = world.name_server.routes.get("jobs")
    addresses = {each.broker_name: each.addresses[0] for each in route.brokers} if route else {}
    broker.address = f"127.0.0.1:{port}"
    world.name_server.set_route("jobs", addresses | {name: broker.address})
    try:
        yield broker
    finally:
        await server.stop(None)
