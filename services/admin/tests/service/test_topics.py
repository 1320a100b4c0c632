"""Topics through the service, and the entries that changes of them leave."""

import asyncio
import json
import time

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_FIFO
from ariane.namesrv.v1.route_pb2 import TOPIC_PERMISSION_WRITE

METADATA = (("x-ariane-claimed-user", "ann"),)


@pytest.fixture
def topics(admin):
    return TopicServiceStub(admin)


async def test_the_life_of_a_topic_leaves_its_entries(topics, entries):
    created = await topics.CreateTopic(
        topic_pb.CreateTopicRequest(topic=Topic(topic="adm-life", read_queue_count=2)),
        metadata=METADATA,
    )
    assert [each.broker_name for each in created.outcomes] == ["broker-a", "broker-b"]
    assert [p.topic.write_queue_count for p in created.topic.placements] == [2, 2]
    await topics.UpdateTopic(
        topic_pb.UpdateTopicRequest(topic="adm-life", read_queue_count=3, write_queue_count=3)
    )
    read = await topics.GetTopic(topic_pb.GetTopicRequest(topic="adm-life"))
    assert [p.topic.read_queue_count for p in read.topic.placements] == [3, 3]
    assert not read.topic.uneven
    queues = await topics.ListTopicQueues(topic_pb.ListTopicQueuesRequest(topic="adm-life"))
    assert [(q.broker_name, q.bounds.queue_id) for q in queues.queues] == [
        (name, number) for name in ("broker-a", "broker-b") for number in range(3)
    ]
    await topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="adm-life"))
    made, changed, gone = await entries(resource_name="adm-life")
    assert made.method == "ariane.admin.v1.TopicService/CreateTopic"
    assert made.claimed_user == "ann"
    assert made.source_address.startswith(("127.0.0.1:", "[::1]:"))
    assert made.before_json == ""
    assert {e.outcome for e in (made, changed, gone)} == {audit_pb.AUDIT_OUTCOME_DONE}
    before, after = json.loads(changed.before_json), json.loads(changed.after_json)
    assert before["placements"][0]["topic"]["read_queue_count"] == 2
    assert after["topic"]["placements"][0]["topic"]["read_queue_count"] == 3
    assert json.loads(gone.before_json)["topic"] == "adm-life"


async def test_a_purge_leaves_an_entry_and_a_look_at_one_does_not(topics, entries):
    created = topic_pb.CreateTopicRequest(topic=Topic(topic="adm-purged", read_queue_count=1))
    await topics.CreateTopic(created)
    purge = topic_pb.PurgeTopicRequest(topic="adm-purged", validate_only=True)
    would = await topics.PurgeTopic(purge)
    assert [each.broker_name for each in would.hidden] == ["broker-a", "broker-b"]
    purge.validate_only = False
    done = await topics.PurgeTopic(purge)
    assert all(each.HasField("before") for each in done.hidden)
    undo = topic_pb.PurgeTopicRequest(topic="adm-purged", undo=True)
    undone = await topics.PurgeTopic(undo)
    assert not any(each.HasField("before") for each in undone.hidden)
    undo.before.GetCurrentTime()
    with pytest.raises(AioRpcError) as refused:
        await topics.PurgeTopic(undo)
    assert refused.value.code() is StatusCode.INVALID_ARGUMENT
    methods = [each.method.partition("/")[2] for each in await entries(resource_name="adm-purged")]
    assert methods == ["CreateTopic", "PurgeTopic", "PurgeTopic", "PurgeTopic"]


@pytest.mark.parametrize("only_look", [True, False])
async def test_a_purge_is_refused_alike_when_it_is_looked_at(topics, only_look):
    async def code_of(topic, **before):
        request = topic_pb.PurgeTopicRequest(topic=topic, validate_only=only_look)
        if before:
            request.before.CopyFrom(Timestamp(**before))
        with pytest.raises(AioRpcError) as refused:
            await topics.PurgeTopic(request)
        return refused.value.code()

    for topic in ("RMQ_SYS_TRACE_TOPIC", "TBW102", "%RETRY%nobody", "%DLQ%nobody"):
        assert await code_of(topic) is StatusCode.PERMISSION_DENIED, topic
    created = topic_pb.CreateTopicRequest(topic=Topic(topic="adm-look"), exists_ok=True)
    await topics.CreateTopic(created)
    for before in ({"seconds": 253402300800}, {"nanos": -1}, {"seconds": -1}, {"nanos": 999_999}):
        assert await code_of("adm-look", **before) is StatusCode.INVALID_ARGUMENT, before


async def test_messages_that_nobody_may_read_are_not_purged_uncounted(topics):
    created = topic_pb.CreateTopicRequest(topic=Topic(topic="adm-closed", read_queue_count=1))
    created.topic.permission = TOPIC_PERMISSION_WRITE
    await topics.CreateTopic(created)
    for only_look in (True, False):
        request = topic_pb.PurgeTopicRequest(topic="adm-closed", validate_only=only_look)
        with pytest.raises(AioRpcError) as refused:
            await topics.PurgeTopic(request)
        assert refused.value.code() is StatusCode.PERMISSION_DENIED
    undo = topic_pb.PurgeTopicRequest(topic="adm-closed", undo=True)
    assert len((await topics.PurgeTopic(undo)).hidden) == 2


async def test_a_change_that_is_refused_leaves_its_entry(topics, entries):
    with pytest.raises(AioRpcError) as refused:
        await topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="never-there"))
    assert refused.value.code() is StatusCode.NOT_FOUND
    [entry] = await entries(resource_name="never-there")
    assert entry.outcome == audit_pb.AUDIT_OUTCOME_FAILED
    assert entry.failure_reason == "TOPIC_NOT_FOUND"
    assert entry.end_sequence == entry.begin_sequence + 1


async def test_a_change_that_some_brokers_refuse_is_done_in_part(topics, entries):
    only_a = topic_pb.CreateTopicRequest(
        topic=Topic(topic="adm-half", read_queue_count=1), broker_names=["broker-a"]
    )
    await topics.CreateTopic(only_a)
    everywhere = topic_pb.CreateTopicRequest(topic=Topic(topic="adm-half", read_queue_count=2))
    created = await topics.CreateTopic(everywhere)
    refused = {each.broker_name: each.HasField("error") for each in created.outcomes}
    assert refused == {"broker-a": True, "broker-b": False}
    assert created.topic.uneven
    *_, last = await entries(resource_name="adm-half")
    assert last.outcome == audit_pb.AUDIT_OUTCOME_PARTLY
    with pytest.raises(AioRpcError) as refused:
        await topics.CreateTopic(everywhere)
    assert refused.value.code() is StatusCode.ALREADY_EXISTS
    assert refused.value.details().count("Choose another name") == 1
    await topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="adm-half"))


async def order_of(topics, name):
    """The order of a topic's queues, once name servers have heard of the topic."""
    async with asyncio.timeout(60):
        while True:
            try:
                asked = topic_pb.GetTopicRequest(topic=name)
                return (await topics.GetTopic(asked)).topic.queue_order
            except AioRpcError as error:
                if error.code() is not StatusCode.NOT_FOUND:
                    raise
            await asyncio.sleep(0.05)


async def test_an_ordered_topic_has_an_order_of_queues_and_takes_it_along(topics):
    name = f"adm-trades-{time.monotonic_ns()}"
    wanted = Topic(topic=name, read_queue_count=1, message_type=MESSAGE_TYPE_FIFO)
    await topics.CreateTopic(topic_pb.CreateTopicRequest(topic=wanted))
    assert await order_of(topics, name) == "broker-a:1;broker-b:1"
    await topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic=name))
    plain = Topic(topic=name, read_queue_count=1)
    await topics.CreateTopic(topic_pb.CreateTopicRequest(topic=plain))
    assert await order_of(topics, name) == ""
    await topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic=name))


async def test_topics_are_listed_page_by_page(topics):
    names = [f"adm-page-{number}" for number in range(5)]
    for name in names:
        await topics.CreateTopic(topic_pb.CreateTopicRequest(topic=Topic(topic=name)))
    found, token = [], ""
    while True:
        page = await topics.ListTopics(
            topic_pb.ListTopicsRequest(name_prefix="adm-page-", page_size=2, page_token=token)
        )
        assert len(page.topics) <= 2
        found += [each.topic for each in page.topics]
        token = page.next_page_token
        if not token:
            break
    assert found == names
    other = topic_pb.ListTopicsRequest(name_prefix="other", page_token="nonsense")
    with pytest.raises(AioRpcError) as refused:
        await topics.ListTopics(other)
    assert refused.value.code() is StatusCode.INVALID_ARGUMENT
    for name in names:
        await topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic=name))
