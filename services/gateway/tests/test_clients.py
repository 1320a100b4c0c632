"""Clients behind a gateway: brokers know them, ask them, and keep their messages."""

import asyncio

import pytest
from grpc import aio

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb
from ariane.broker.v1 import client_question_pb2 as question_pb
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.broker.v1.client_service_pb2_grpc import ClientServiceStub
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub


@pytest.fixture
async def broker(ariane_cluster):
    """The channel to the broker behind the gateway."""
    async with aio.insecure_channel(ariane_cluster.broker_address) as channel:
        yield channel


async def client_of(broker, client_id):
    """What the broker knows of a client; None if it does not know it."""
    answer = await ClientServiceStub(broker).ListClients(
        client_pb.ListClientsRequest(page_size=1000)
    )
    known = {each.hello.client_id: each for each in answer.clients}
    return known.get(client_id)


@pytest.fixture
def is_member(broker, client):
    """Whether the broker knows what the client consumes; who it is then."""

    async def look():
        known = await client_of(broker, client.client_id)
        return known if known is not None and known.hello.memberships else None

    return look


@pytest.fixture
def is_gone(broker, client):
    """Whether the broker knows the client no longer."""

    async def look():
        return await client_of(broker, client.client_id) is None

    return look


async def until(look):
    async with asyncio.timeout(30):
        while not (found := await look()):  # noqa: ASYNC110 - the other side of a wire
            await asyncio.sleep(0.01)
    return found


class Stream:
    """The stream of a client."""

    def __init__(self, client):
        self.call = client.stub.Telemetry(metadata=client.metadata, timeout=60)

    async def settle(self, settings):
        await self.call.write(pb.TelemetryCommand(settings=settings))
        answer = await self.call.read()
        assert answer.status.code == dp.OK, answer
        return self

    async def hear(self, kind):
        command = await self.call.read()
        assert command.WhichOneof("command") == kind, command
        return getattr(command, kind)


def producing(topic):
    topics = [dp.Resource(name=topic)]
    return dp.Settings(client_type=dp.PRODUCER, publishing=dp.Publishing(topics=topics))


def consuming(group, topic):
    return dp.Settings(
        client_type=dp.PUSH_CONSUMER,
        subscription=dp.Subscription(
            group=dp.Resource(name=group),
            subscriptions=[
                dp.SubscriptionEntry(
                    topic=dp.Resource(name=topic),
                    expression=dp.FilterExpression(type=dp.TAG, expression="*"),
                )
            ],
        ),
    )


async def test_brokers_know_the_clients_of_a_gateway_until_they_leave(
    client, ariane_topic, group, is_member, is_gone
):
    await Stream(client).settle(consuming(group, ariane_topic))
    known = await until(is_member)
    assert (known.hello.language, known.hello.memberships[0].consumer_group) == ("PYTHON", group)
    assert known.gateways[0].startswith("gateway@")
    leave = pb.NotifyClientTerminationRequest(group=dp.Resource(name=group))
    await client.call("NotifyClientTermination", leave)
    await until(is_gone)


async def test_a_heartbeat_is_as_good_a_sign_of_life_as_the_stream(client, broker, group):
    beat = pb.HeartbeatRequest(group=dp.Resource(name=group), client_type=dp.PUSH_CONSUMER)
    await client.call("Heartbeat", beat)
    assert await until(lambda: client_of(broker, client.client_id))


async def test_a_producer_is_asked_about_its_transaction(client, broker, ariane_topic, group):
    stream = await Stream(client).settle(producing(ariane_topic))
    sent = await client.send(ariane_topic, b"half", dp.TRANSACTION, tag="made")

    async def is_known():
        known = await client_of(broker, client.client_id)
        return known is not None and ariane_topic in known.hello.producer_groups

    await until(is_known)
    question = transaction_pb.CheckTransactionRequest(transaction_id=sent.message_id)
    question.wait_duration.FromSeconds(20)
    asking = asyncio.ensure_future(TransactionServiceStub(broker).CheckTransaction(question))
    asked = await stream.hear("recover_orphaned_transaction_command")
    assert asked.transaction_id == sent.transaction_id
    said = asked.message.system_properties
    assert (asked.message.topic.name, asked.message.body) == (ariane_topic, b"half")
    assert (said.message_id, said.tag) == (sent.message_id, "made")
    end = pb.EndTransactionRequest(
        topic=asked.message.topic,
        message_id=said.message_id,
        transaction_id=asked.transaction_id,
        resolution=dp.COMMIT,
        source=dp.SOURCE_SERVER_CHECK,
    )
    assert (await client.call("EndTransaction", end)).status.code == dp.OK
    answer = await asking
    assert (answer.client_id, answer.outcome) == (
        client.client_id,
        client_pb.TRANSACTION_OUTCOME_COMMIT,
    )
    _, (message,) = await client.receive(ariane_topic, group, hold_s=5)
    assert message.body == b"half"


async def test_operators_ask_for_stacks_and_have_a_message_consumed(
    client, broker, ariane_topic, group, is_member
):
    stream = await Stream(client).settle(consuming(group, ariane_topic))
    await until(is_member)
    clients = ClientServiceStub(broker)
    question = client_pb.GetClientStateRequest(client_id=client.client_id, with_stacks=True)
    asking = asyncio.ensure_future(clients.GetClientState(question))
    asked = await stream.hear("print_thread_stack_trace_command")
    trace = pb.ThreadStackTrace(nonce=asked.nonce, thread_stack_trace="main\n at work")
    await stream.call.write(
        pb.TelemetryCommand(status=dp.Status(code=dp.OK), thread_stack_trace=trace)
    )
    state = (await asking).state
    assert list(state.stacks[0].frames) == ["main", " at work"]
    assert (state.facts["language"], state.facts["consumes"]) == ("PYTHON", group)
    await client.send(ariane_topic, b"again")
    _, (message,) = await client.receive(ariane_topic, group)
    stored = await stored_id(broker, ariane_topic, message.system_properties)
    wanted = client_pb.ConsumeMessageRequest(
        consumer_group=group, client_id=client.client_id, message_id=stored
    )
    asking = asyncio.ensure_future(clients.ConsumeMessage(wanted))
    asked = await stream.hear("verify_message_command")
    assert (asked.message.topic.name, asked.message.body) == (ariane_topic, b"again")
    result = pb.VerifyMessageResult(nonce=asked.nonce)
    failed = dp.Status(code=dp.FAILED_TO_CONSUME_MESSAGE, message="out of cups")
    await stream.call.write(pb.TelemetryCommand(status=failed, verify_message_result=result))
    answer = (await asking).answer
    assert (answer.outcome, answer.cause) == (question_pb.CONSUME_OUTCOME_RETRY, "out of cups")


async def stored_id(broker, topic, said):
    """The broker's own id of a message."""
    request = pull_pb.PullMessagesRequest(
        consumer_group="readers",
        positions=[
            pull_pb.PullPosition(
                topic=topic, queue_id=said.queue_id, queue_offset=said.queue_offset
            )
        ],
    )
    answer = await PullServiceStub(broker).PullMessages(request)
    return answer.queues[0].messages[0].position.message_id


async def test_messages_are_kept_while_their_consumer_lives_and_no_longer(
    client, ariane_topic, ariane_clock, group, broker, is_gone
):
    beat = pb.HeartbeatRequest(group=dp.Resource(name=group), client_type=dp.PUSH_CONSUMER)
    await client.call("Heartbeat", beat)
    await until(lambda: client_of(broker, client.client_id))
    await client.send(ariane_topic, b"slow")
    _, (message,) = await client.receive(ariane_topic, group, auto_renew=True)
    assert message.system_properties.delivery_attempt == 1
    for _ in range(3):
        await asyncio.sleep(0.2)  # The broker looks ten times a second.
        ariane_clock.advance(40)
    assert (await client.receive(ariane_topic, group))[1] == []
    leave = pb.NotifyClientTerminationRequest(group=dp.Resource(name=group))
    await client.call("NotifyClientTermination", leave)
    await until(is_gone)
    ariane_clock.advance(61)
    _, (message,) = await client.receive(ariane_topic, group, hold_s=10)
    assert (message.body, message.system_properties.delivery_attempt) == (b"slow", 2)
