"""Messages and what waits, through the service."""

from datetime import timedelta

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.admin.v1 import delayed_message_service_pb2 as delayed_pb
from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.admin.v1.delayed_message_service_pb2_grpc import DelayedMessageServiceStub
from ariane.admin.v1.message_service_pb2_grpc import MessageServiceStub
from ariane.common.v1.message_pb2 import Message as MessageText
from ariane_sdk import ClusterClient, Message, Producer


@pytest.fixture
def messages(admin):
    return MessageServiceStub(admin)


@pytest.fixture
async def letters(cluster):
    """A topic with 25 messages, their sends' results by number."""
    async with ClusterClient(cluster.name_servers) as client, Producer(cluster.name_servers) as p:
        await client.create_topic("adm-letters", queue_count=2, exists_ok=True)
        results = [
            await p.send(Message("adm-letters", b"body %d" % n, tag="post", keys=[f"k{n}"]))
            for n in range(25)
        ]
        yield results
        await client.delete_topic("adm-letters")


async def test_a_message_is_found_by_each_of_its_names(messages, letters):
    sent = letters[7]
    for message_id in (sent.message_id, sent.unique_id):
        found = await messages.GetMessage(
            message_pb.GetMessageRequest(topic="adm-letters", message_id=message_id)
        )
        assert found.message.body == b"body 7"
        assert found.message.position.queue_offset == sent.queue_offset
    found = await messages.QueryMessages(
        message_pb.QueryMessagesRequest(topic="adm-letters", key="k7", body_bytes_max=4)
    )
    assert [m.body for m in found.messages] == [b"body"]
    assert list(found.truncations) == [True]
    with pytest.raises(AioRpcError) as refused:
        await messages.GetMessage(message_pb.GetMessageRequest(message_id="nonsense"))
    assert refused.value.code() is StatusCode.NOT_FOUND


async def test_the_newest_come_first_page_by_page(messages, letters):
    found, token = [], ""
    while True:
        page = await messages.QueryMessages(
            message_pb.QueryMessagesRequest(topic="adm-letters", page_size=10, page_token=token)
        )
        found += page.messages
        token = page.next_page_token
        if not token:
            break
    assert len(found) == 25
    assert {m.body for m in found} == {b"body %d" % n for n in range(25)}
    times = [m.position.store_time.ToMilliseconds() for m in found]
    assert times == sorted(times, reverse=True)


@pytest.fixture
async def burst(cluster):
    """A topic with 300 messages of one key, all but stored in one instant."""
    async with ClusterClient(cluster.name_servers) as client, Producer(cluster.name_servers) as p:
        await client.create_topic("adm-burst", queue_count=2, exists_ok=True)
        await p.send_batch([Message("adm-burst", b"%d" % n, keys=["burst"]) for n in range(300)])
        yield "adm-burst"
        await client.delete_topic("adm-burst")


@pytest.mark.parametrize("term", [{}, {"key": "burst"}])
async def test_none_is_left_out_where_many_were_stored_in_one_instant(messages, burst, term):
    found, request = [], message_pb.QueryMessagesRequest(topic=burst, page_size=20, **term)
    while not found or request.page_token:
        page = await messages.QueryMessages(request)
        found += page.messages
        request.page_token = page.next_page_token
    assert len(found) == 300
    assert {int(m.body) for m in found} == set(range(300))
    times = [m.position.store_time.ToMilliseconds() for m in found]
    assert times == sorted(times, reverse=True)


async def test_an_operator_sends_a_message_and_it_is_told_whose_it_is(messages, letters, entries):
    sent = await messages.SendMessage(
        message_pb.SendMessageRequest(
            topic="adm-letters",
            message=MessageText(body=b"secret of a customer", tag="post", keys=["by-hand"]),
            broker_name="broker-b",
        )
    )
    assert sent.position.broker_name == "broker-b"
    found = await messages.GetMessage(
        message_pb.GetMessageRequest(topic="adm-letters", message_id=sent.position.message_id)
    )
    assert found.message.properties["ariane.sent_by"] == "admin"
    [entry] = await entries(resource_name="adm-letters")
    assert "secret" not in entry.request_json
    assert "by-hand" in entry.request_json


async def test_delayed_messages_are_counted_and_recalled(cluster, admin, letters, entries):
    stub = DelayedMessageServiceStub(admin)

    async def waiting():
        listed = await stub.ListDelayedMessages(delayed_pb.ListDelayedMessagesRequest())
        return sum(each.delayed_messages.timed_pending_count for each in listed.brokers)

    before = await waiting()
    async with Producer(cluster.name_servers) as producer:
        sent = await producer.send(Message("adm-letters", b"later", delay=timedelta(hours=1)))
    assert await waiting() == before + 1
    recall = delayed_pb.RecallMessageRequest(recall_handle=sent.recall_handle, topic="adm-letters")
    assert (await stub.RecallMessage(recall)).recalled
    [entry] = await entries(resource_name="adm-letters")
    assert entry.method.endswith("RecallMessage")
    with pytest.raises(AioRpcError) as refused:
        await stub.RecallMessage(delayed_pb.RecallMessageRequest(recall_handle="x", topic="t"))
    assert refused.value.code() is StatusCode.INVALID_ARGUMENT
