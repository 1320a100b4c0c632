"""TopicService, and what permissions and types do to sends and pulls."""

import pytest

from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane.namesrv.v1 import route_pb2 as route_pb


async def list_topics(broker, **fields):
    return await broker.topics.ListTopics(topic_pb.ListTopicsRequest(**fields))


async def test_counts_of_zero_mean_the_default(broker):
    topic = await broker.create_topic("orders", 0)
    assert (topic.read_queue_count, topic.write_queue_count) == (4, 4)
    assert topic.permission == route_pb.TOPIC_PERMISSION_READ_WRITE
    assert not topic.system
    assert topic.version > 0
    assert not topic.HasField("last_store_time")


async def test_a_topic_is_created_once(broker, refused):
    await broker.create_topic("orders")
    failure = await refused(broker.create_topic("orders"))
    assert (failure.reason, failure.code) == ("TOPIC_EXISTS", "ALREADY_EXISTS")


@pytest.mark.parametrize(
    "fields",
    [
        {"read_queue_count": -1},
        {"write_queue_count": -1},
        {"read_queue_count": 65537},
        {"attributes": {"cleanup.policy": "COMPACTION"}},
        {"attributes": {"color": "red"}},
        {"attributes": {"message.type": "FIFO"}},
        {"permission": 77},
        {"message_type": 77},
    ],
)
async def test_senseless_topics_are_refused(broker, refused, fields):
    request = topic_pb.CreateTopicRequest(topic=topic_pb.Topic(topic="orders", **fields))
    assert (await refused(broker.topics.CreateTopic(request))).reason == "FIELD_INVALID"
    assert list((await list_topics(broker)).topics) == []


async def test_lists_come_in_pages(broker):
    for name in "cabde":
        await broker.create_topic(name)
    names, token, pages = [], "", 0
    while True:
        page = await list_topics(broker, page_size=2, page_token=token)
        names += [topic.topic for topic in page.topics]
        pages += 1
        token = page.next_page_token
        if not token:
            break
    assert (names, pages) == (list("abcde"), 3)


async def test_system_topics_are_listed_on_request(broker):
    names = {topic.topic for topic in (await list_topics(broker, include_system=True)).topics}
    assert names >= {"TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"}
    assert list((await list_topics(broker)).topics) == []


async def test_without_auto_creation_there_is_no_template(running):
    async with running(auto_create_topics=False) as broker:
        names = {topic.topic for topic in (await list_topics(broker, include_system=True)).topics}
        assert "TBW102" not in names


async def test_a_strange_page_token_is_refused(broker, refused):
    call = list_topics(broker, page_token="what?")
    assert (await refused(call)).reason == "PAGE_TOKEN_INVALID"


async def test_shrinking_write_queues_first_loses_nothing(broker, reason_of):
    await broker.create_topic("orders", 4)
    for queue_id in range(4):
        await broker.store("orders", [b"%d" % queue_id], queue_id)
    await broker.topics.UpdateTopic(
        topic_pb.UpdateTopicRequest(topic="orders", write_queue_count=2)
    )
    (result,) = await broker.append(broker.batch("orders", [b"late"], 3))
    assert reason_of(result.error) == "QUEUE_NOT_FOUND"
    assert await broker.bodies("orders", 3) == [b"3"]
    for queue_id in range(4):
        await broker.store_offset("group", "orders", queue_id, 1)
    response = await broker.topics.UpdateTopic(
        topic_pb.UpdateTopicRequest(topic="orders", read_queue_count=2)
    )
    assert (response.topic.read_queue_count, response.topic.write_queue_count) == (2, 2)
    (pulled,) = await broker.pull(("orders", 3, 0))
    assert reason_of(pulled.error) == "QUEUE_NOT_FOUND"


async def test_permissions(broker, reason_of):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])

    async def allow(permission):
        await broker.topics.UpdateTopic(
            topic_pb.UpdateTopicRequest(topic="orders", permission=permission)
        )
        (result,) = await broker.append(broker.batch("orders", [b"b"]))
        (pulled,) = await broker.pull(("orders", 0, 0))
        return [
            "" if result.error is None else reason_of(result.error),
            reason_of(pulled.error) if pulled.HasField("error") else "",
        ]

    assert await allow(route_pb.TOPIC_PERMISSION_READ) == ["TOPIC_NOT_WRITABLE", ""]
    assert await allow(route_pb.TOPIC_PERMISSION_WRITE) == ["", "TOPIC_NOT_READABLE"]
    assert await allow(route_pb.TOPIC_PERMISSION_NONE) == [
        "TOPIC_NOT_WRITABLE",
        "TOPIC_NOT_READABLE",
    ]
    assert await allow(route_pb.TOPIC_PERMISSION_READ_WRITE) == ["", ""]


async def test_versions_grow(broker):
    first = await broker.create_topic("orders")
    second = await broker.create_topic("bills")
    changed = await broker.topics.UpdateTopic(
        topic_pb.UpdateTopicRequest(topic="orders", read_queue_count=3)
    )
    assert first.version < second.version < changed.topic.version


async def test_deletion_takes_messages_and_offsets_along(broker, refused, reason_of):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b"])
    await broker.store_offset("group", "orders", 0, 2)
    await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
    (pulled,) = await broker.pull(("orders", 0, 0))
    assert reason_of(pulled.error) == "TOPIC_NOT_FOUND"
    call = broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
    assert (await refused(call)).reason == "TOPIC_NOT_FOUND"
    await broker.create_topic("orders")
    assert await broker.known_offset("group", "orders") is None
    assert await broker.bodies("orders") == []


async def test_message_types_are_kept_and_checked(broker, refused, reason_of):
    topic = await broker.create_topic("orders", 1, message_type=message_pb.MESSAGE_TYPE_FIFO)
    assert topic.message_type == message_pb.MESSAGE_TYPE_FIFO
    request = send_pb.SendMessagesRequest(topic="orders", messages=[{"body": b"a"}])
    failure = await refused(broker.sends.SendMessages(request))
    assert (failure.reason, failure.code) == ("MESSAGE_TYPE_MISMATCH", "FAILED_PRECONDITION")
    request = send_pb.SendMessagesRequest(
        topic="orders", queue_id=0, messages=[{"body": b"a", "message_group": "g"}]
    )
    await broker.sends.SendMessages(request)
    await broker.create_topic("later", 1, message_type=message_pb.MESSAGE_TYPE_DELAY)
    (result,) = await broker.append(broker.batch("later", [b"a"]))
    assert reason_of(result.error) == "MESSAGE_TYPE_MISMATCH"


async def test_the_last_store_time_is_told(broker):
    result = await broker.store("orders", [b"a"], 2)
    response = await broker.topics.GetTopic(topic_pb.GetTopicRequest(topic="orders"))
    assert response.topic.last_store_time == result.store_time


async def test_what_is_no_name_and_what_nobody_has_are_told_apart(broker, refused):
    for name, reason in (
        ("no such", "TOPIC_NAME_ILLEGAL"),
        ("", "TOPIC_NAME_ILLEGAL"),
        ("nobody", "TOPIC_NOT_FOUND"),
        ("%RETRY%nobody", "TOPIC_NOT_FOUND"),
    ):
        call = broker.topics.GetTopic(topic_pb.GetTopicRequest(topic=name))
        assert (await refused(call)).reason == reason, name
