"""Live consumers are asked what they are at, and to consume a message once more."""

import asyncio

import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import client_service_pb2 as client_pb
from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.admin.v1.client_service_pb2_grpc import ClientServiceStub
from ariane.admin.v1.message_service_pb2_grpc import MessageServiceStub
from ariane.broker.v1.client_question_pb2 import (
    CONSUME_OUTCOME_CONSUMED,
    CONSUME_OUTCOME_RAISED,
    CONSUME_OUTCOME_REFUSED,
    CONSUME_OUTCOME_RETRY,
)
from ariane_sdk import ClusterClient, Message, Producer, PushConsumer, PushSettings
from ariane_sdk.errors import MessagesFailed

TOPIC, GROUP = "adm-live", "adm-live-crew"


class Listener:
    """Takes messages; the next one as it is told."""

    def __init__(self):
        self.bodies = []
        self.go = asyncio.Event()
        self.go.set()
        self.raises = None
        self.changed = asyncio.Condition()

    async def __call__(self, messages):
        async with self.changed:
            self.bodies += [message.body for message in messages]
            self.changed.notify_all()
        await self.go.wait()
        if self.raises is not None:
            raise self.raises(messages)

    async def wait_for(self, count):
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: len(self.bodies) >= count)


@pytest.fixture
async def sent(cluster):
    """One message of a topic of one queue; its id."""
    async with ClusterClient(cluster.name_servers) as client, Producer(cluster.name_servers) as p:
        await client.create_topic(TOPIC, queue_count=1, exists_ok=True)
        result = await p.send(Message(TOPIC, b"paid"))
        yield result
        await client.delete_topic(TOPIC)


def consumer_of(cluster, listener, **settings):
    return PushConsumer(
        cluster.name_servers,
        group=GROUP,
        subscriptions={TOPIC: "*"},
        listener=listener,
        start="earliest",
        settings=PushSettings(**settings),
    )


async def offsets(cluster):
    """What is consumed of each queue; one at its begin may not have a stored offset yet."""
    async with ClusterClient(cluster.name_servers) as client:
        lags = await client.consumer_lag(GROUP)
    return {lag.message_queue: lag.consumer_offset for lag in lags if lag.consumer_offset}


async def test_a_consumer_tells_what_it_is_at(cluster, admin, sent):
    clients, listener = ClientServiceStub(admin), Listener()
    listener.go.clear()
    async with consumer_of(cluster, listener) as consumer:
        await listener.wait_for(1)
        asked = client_pb.GetClientStateRequest(client_id=consumer.client_id, with_stacks=True)
        state = (await clients.GetClientState(asked)).state
        assert state.facts["sdk_version"]
        assert state.facts["settings.queue_concurrency"] == "1"
        [queue] = [q for q in state.queues if q.in_flight_count]
        place = sent.message_queue
        assert (queue.topic, queue.broker_name) == (TOPIC, place.broker_name)
        assert (queue.consumer_offset, queue.next_pull_offset) == (0, 1)
        assert (queue.waiting_count, queue.size_bytes > 0) == (0, True)
        assert queue.oldest_store_time.ToMilliseconds() > 0
        assert queue.HasField("since_delivery")
        assert queue.HasField("since_pull")
        frames = [frame for stack in state.stacks for frame in stack.frames]
        assert any(frame.endswith("in Listener.__call__") for frame in frames)
        asked.with_stacks = False
        assert not (await clients.GetClientState(asked)).state.stacks
        listener.go.set()
    async with consumer_of(cluster, listener, stacks_on_request=False) as consumer:
        await consumer.wait_assigned()
        asked = client_pb.GetClientStateRequest(client_id=consumer.client_id, with_stacks=True)
        state = (await clients.GetClientState(asked)).state
        assert not state.stacks
        assert "stacks_on_request" in state.stacks_refusal


async def test_a_message_is_consumed_once_more_and_no_offset_moves(cluster, admin, sent, entries):
    messages, listener = MessageServiceStub(admin), Listener()
    request = message_pb.ConsumeMessageRequest(
        consumer_group=GROUP, message_id=sent.message_id, wait_duration=Duration(seconds=30)
    )
    async with consumer_of(cluster, listener) as consumer:
        await listener.wait_for(1)
        await consumer.store_offsets()
        before, request.client_id = await offsets(cluster), consumer.client_id
        done = await messages.ConsumeMessage(request)
        assert done.answer.outcome == CONSUME_OUTCOME_CONSUMED
        assert done.answer.duration.ToMicroseconds() > 0
        assert done.position.message_id == sent.message_id
        listener.raises = lambda _: ValueError("no\nroom")
        raised = (await messages.ConsumeMessage(request)).answer
        assert (raised.outcome, raised.cause) == (CONSUME_OUTCOME_RAISED, r"ValueError('no\nroom')")
        listener.raises = lambda delivered: MessagesFailed(delivered, "later")
        retry = (await messages.ConsumeMessage(request)).answer
        assert retry.outcome == CONSUME_OUTCOME_RETRY
        listener.raises = None
        # By the producer's id, too.
        request.message_id, request.topic = sent.unique_id, TOPIC
        assert (await messages.ConsumeMessage(request)).answer.outcome == CONSUME_OUTCOME_CONSUMED
        assert listener.bodies == [b"paid"] * 5
        await consumer.store_offsets()
        assert await offsets(cluster) == before
        await _check_silent(messages, listener, request)
    trail = await entries(resource_name=GROUP)
    assert {entry.method.rpartition("/")[2] for entry in trail} == {"ConsumeMessage"}
    assert len(trail) == 5
    assert '"CONSUME_OUTCOME_RAISED"' in trail[1].after_json
    ends = [(each.outcome, each.failure_reason) for each in trail]
    failed = audit_pb.AUDIT_OUTCOME_FAILED
    assert ends[:3] == [
        (audit_pb.AUDIT_OUTCOME_DONE, ""),
        (failed, "CONSUME_RAISED"),
        (failed, "CONSUME_RETRY"),
    ]


async def _check_silent(messages, listener, request):
    """A listener that takes its time: the answer is that nobody knows yet."""
    listener.go.clear()
    request.wait_duration.FromMilliseconds(200)
    with pytest.raises(AioRpcError) as silent:
        await messages.ConsumeMessage(request)
    assert silent.value.code() is StatusCode.DEADLINE_EXCEEDED
    assert "it may be at the message still" in silent.value.details()
    listener.go.set()


async def test_a_member_that_refuses_or_is_away_consumes_nothing(cluster, admin, sent):
    messages, listener = MessageServiceStub(admin), Listener()
    request = message_pb.ConsumeMessageRequest(
        consumer_group=GROUP, client_id="nobody", message_id=sent.message_id
    )

    async def code_of(**fields):
        wrong = message_pb.ConsumeMessageRequest()
        wrong.CopyFrom(request)
        for name, value in fields.items():
            setattr(wrong, name, value)
        with pytest.raises(AioRpcError) as refused:
            await messages.ConsumeMessage(wrong)
        return refused.value.code()

    assert await code_of() is StatusCode.FAILED_PRECONDITION
    assert await code_of(message_id="0" * 32) is StatusCode.NOT_FOUND
    for name in ("message_id", "client_id", "consumer_group"):
        assert await code_of(**{name: ""}) is StatusCode.INVALID_ARGUMENT
    request.wait_duration.FromSeconds(61)
    assert await code_of() is StatusCode.INVALID_ARGUMENT
    request.ClearField("wait_duration")
    async with consumer_of(cluster, listener, consume_on_request=False) as consumer:
        await listener.wait_for(1)
        request.client_id = consumer.client_id
        refused = (await messages.ConsumeMessage(request)).answer
    assert refused.outcome == CONSUME_OUTCOME_REFUSED
    assert "consume_on_request" in refused.cause
    assert listener.bodies == [b"paid"]
