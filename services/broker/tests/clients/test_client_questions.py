"""What operators ask of one live client, over the wire."""

import asyncio

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.broker.v1 import client_question_pb2 as question_pb
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_record import decode_record


def membership(group="group", topic="orders"):
    subscription = subscription_pb.Subscription(
        topic=topic,
        filter=subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text="*"),
    )
    return client_pb.Membership(consumer_group=group, subscriptions=[subscription])


async def attach(broker, client_id, *memberships, reads_records=False):
    call = broker.clients.Attach()
    hello = client_pb.ClientHello(
        client_id=client_id, memberships=memberships, reads_records=reads_records
    )
    await call.write(client_pb.AttachRequest(hello=hello))
    assert (await call.read()).WhichOneof("content") == "accepted"
    return call


async def ask(broker, client_id, wait_s=0.0, *, with_stacks=False):
    request = client_pb.GetClientStateRequest(client_id=client_id, with_stacks=with_stacks)
    request.wait_duration.FromMilliseconds(round(wait_s * 1000))
    return await broker.clients.GetClientState(request)


async def question_of(call, kind):
    """The next question of a kind; members of a group hear of one another, too."""
    while not (response := await call.read()).HasField(kind):
        pass
    return getattr(response, kind)


async def test_a_client_is_asked_over_its_stream(broker, refused):
    assert (await refused(ask(broker, "a"))).reason == "CLIENT_NOT_ATTACHED"
    call = await attach(broker, "a")
    other = await attach(broker, "b")
    answer = asyncio.ensure_future(ask(broker, "a", 20, with_stacks=True))
    question = await question_of(call, "state_question")
    assert question.with_stacks
    facts = {"in work": "3"}
    lie = question_pb.ClientState(question_id=question.question_id, facts={"in work": "0"})
    await other.write(client_pb.AttachRequest(state=lie))
    stale = question_pb.ClientState(question_id="long ago", facts={})
    await call.write(client_pb.AttachRequest(state=stale))
    queue = question_pb.ClientQueueState(topic="orders", broker_name="broker-a", in_flight_count=3)
    state = question_pb.ClientState(question_id=question.question_id, facts=facts, queues=[queue])
    await call.write(client_pb.AttachRequest(state=state))
    assert (await answer).state == state
    failure = await refused(ask(broker, "a", 0.05))
    assert (failure.reason, failure.code) == ("CLIENT_SILENT", "DEADLINE_EXCEEDED")
    assert (await refused(ask(broker, "a", 31))).reason == "FIELD_INVALID"
    call.cancel()
    other.cancel()


async def test_what_a_client_says_too_much_of_is_left_out(broker):
    call = await attach(broker, "a")
    answer = asyncio.ensure_future(ask(broker, "a", 20))
    question = await question_of(call, "state_question")
    stack = question_pb.ClientStack(name="x" * (4 << 20))
    state = question_pb.ClientState(
        question_id=question.question_id, facts={"sdk_version": "1"}, stacks=[stack]
    )
    await call.write(client_pb.AttachRequest(state=state))
    told = (await answer).state
    assert (told.truncated, list(told.stacks), dict(told.facts)) == (True, [], {"sdk_version": "1"})
    call.cancel()


@pytest.fixture
async def stored(broker):
    """Store one message; its id."""

    async def store(topic, body=b"a"):
        await broker.create_topic(topic)
        await broker.store(topic, [body])
        request = pull_pb.PullMessagesRequest(
            consumer_group="reader", positions=[pull_pb.PullPosition(topic=topic)]
        )
        (queue,) = (await broker.pulls.PullMessages(request)).queues
        (message,) = queue.messages
        return message.position.message_id

    return store


def consume(broker, message_id, *, client_id="a", group="group", wait_s=20.0):
    request = client_pb.ConsumeMessageRequest(
        consumer_group=group, client_id=client_id, message_id=message_id
    )
    request.wait_duration.FromMilliseconds(round(wait_s * 1000))
    return broker.clients.ConsumeMessage(request)


@pytest.mark.parametrize("reads_records", [False, True])
async def test_a_member_is_asked_to_consume_a_message(broker, stored, reads_records):
    message_id = await stored("orders", b"again")
    call = await attach(broker, "a", membership(), reads_records=reads_records)
    other = await attach(broker, "b", membership())
    answer = asyncio.ensure_future(consume(broker, message_id))
    question = await question_of(call, "consume_question")
    message = decode_record(question.record) if reads_records else question.message
    assert (question.consumer_group, message.topic, message.body) == ("group", "orders", b"again")
    lie = question_pb.ConsumeAnswer(question_id=question.question_id, cause="a lie")
    await other.write(client_pb.AttachRequest(consume_answer=lie))
    said = question_pb.ConsumeAnswer(
        question_id=question.question_id,
        outcome=question_pb.CONSUME_OUTCOME_RAISED,
        cause="no\nroom\x1b[31m" + "x" * 5000,
    )
    await call.write(client_pb.AttachRequest(consume_answer=said))
    told = (await answer).answer
    assert told.outcome == question_pb.CONSUME_OUTCOME_RAISED
    assert told.cause.startswith("no\\nroom\\x1b")
    assert len(told.cause) == 1024
    call.cancel()
    other.cancel()


async def test_a_client_that_cannot_consume_a_message_is_not_asked(broker, refused, stored):
    message_id, foreign = await stored("orders"), await stored("payments")
    assert (await refused(consume(broker, message_id))).reason == "CLIENT_NOT_ATTACHED"
    call = await attach(broker, "a", membership())
    strange = await refused(consume(broker, message_id, group="others"))
    assert strange.reason == "CLIENT_NOT_ATTACHED"
    for wrong, reason in (
        (foreign, "FIELD_INVALID"),
        ("no id", "FIELD_INVALID"),
        ("", "FIELD_INVALID"),
        ("0" * 32, "MESSAGE_NOT_FOUND"),
    ):
        refusal = await refused(consume(broker, wrong))
        assert refusal.reason == reason
        # Whoever may not see a topic does not learn its name from the place of a message.
        assert "payments" not in str(refusal)
    assert (await refused(consume(broker, message_id, wait_s=61))).reason == "FIELD_INVALID"
    silent = await refused(consume(broker, message_id, wait_s=0.05))
    assert (silent.reason, silent.code) == ("CLIENT_SILENT", "DEADLINE_EXCEEDED")
    call.cancel()


async def test_a_question_to_a_client_that_leaves_ends_at_once(broker, stored):
    message_id = await stored("orders")
    call = await attach(broker, "a", membership())
    asked = [
        asyncio.ensure_future(ask(broker, "a", 30)),
        asyncio.ensure_future(consume(broker, message_id, wait_s=60)),
    ]
    seen = set()
    while not seen >= {"state_question", "consume_question"}:
        seen.add((await call.read()).WhichOneof("content"))
    call.cancel()
    for answer in asked:
        # Of one that waited for its whole time the words are others.
        with pytest.raises(AioRpcError, match="client 'a' left before it answered") as silent:
            await answer
        assert silent.value.code() is StatusCode.DEADLINE_EXCEEDED
