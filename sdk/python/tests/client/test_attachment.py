"""What a client says of itself to a broker, whenever it says it."""

import asyncio
from types import SimpleNamespace

import pytest
from google.protobuf.duration_pb2 import Duration

from ariane.broker.v1.client_question_pb2 import QueueHold
from ariane.broker.v1.client_service_pb2 import AttachAccepted, AttachResponse, Membership
from ariane_sdk.client.attachment import Attachment
from ariane_sdk.client.operator_answers import OperatorAnswers
from ariane_sdk.runtime.clock import SystemClock


class Stream:
    """A stream to a broker that lets the client in when it is told to."""

    def __init__(self, requests):
        self.said = []
        self.heard = asyncio.Condition()
        self.accept = asyncio.Event()
        self._reading = asyncio.create_task(self._read(requests))

    async def _read(self, requests):
        async for request in requests:
            async with self.heard:
                self.said.append(request)
                self.heard.notify_all()

    async def wait_said(self, count):
        async with asyncio.timeout(60), self.heard:
            await self.heard.wait_for(lambda: len(self.said) >= count)

    async def __aiter__(self):
        await self.accept.wait()
        yield AttachResponse(accepted=AttachAccepted(broker_name="broker-a"))
        await self._reading

    def cancel(self):
        self._reading.cancel()

    async def code(self):
        return None


@pytest.fixture
async def attached():
    """Attach to a broker with some options; returns the attachment and its stream."""

    async def attach_with(**options):
        streams = []

        def attach(requests):
            streams.append(Stream(requests))
            return streams[-1]

        connections = SimpleNamespace(clients=lambda _address: SimpleNamespace(Attach=attach))
        attachment = Attachment(
            "broker-a",
            "127.0.0.1:1",
            connections,
            client_id="c",
            membership=Membership(consumer_group="g", zone="old"),
            clock=SystemClock(),
            on_notice=lambda *_: None,
            on_fatal=lambda _error: None,
            answers=OperatorAnswers(facts=dict),
            **options,
        )
        async with asyncio.timeout(60):
            while not streams:  # noqa: ASYNC110 - there is nothing to be told by.
                await asyncio.sleep(0)
        return attachment, streams[0]

    return attach_with


async def test_what_changes_between_hello_and_its_answer_is_said_after_it(attached):
    attachment, stream = await attached()
    await stream.wait_said(1)
    assert [m.zone for m in stream.said[0].hello.memberships] == ["old"]
    attachment.change_membership(Membership(consumer_group="g", zone="new"))
    stream.accept.set()
    await stream.wait_said(2)
    attachment.change_membership(Membership(consumer_group="g", zone="newest"))
    await stream.wait_said(3)
    await attachment.close(1.0)

    assert [m.zone for r in stream.said[1:] for m in r.heartbeat.memberships] == ["new", "newest"]
    # Who leaves in peace says so: else it may have died of a message.
    assert [r.WhichOneof("content") for r in stream.said].count("goodbye") == 1
    assert stream.said[-1].HasField("goodbye")


async def test_a_hold_that_begins_anew_is_said_again(attached):
    def hold(**left):
        return QueueHold(consumer_group="g", reason=1, remaining=Duration(**left))

    held = [hold(nanos=1_000_000)]
    attachment, stream = await attached(holds=lambda _broker: held)
    stream.accept.set()
    await attachment.wait_tried()
    attachment.send_holds()
    await asyncio.sleep(0.01)
    held[:] = [hold(seconds=600)]
    attachment.send_holds()
    attachment.send_holds()
    held.clear()
    attachment.send_holds()
    await stream.wait_said(4)
    await attachment.close(1.0)

    told = [[each.remaining.seconds for each in r.heartbeat.holds] for r in stream.said[1:4]]
    assert told == [[0], [600], []]
