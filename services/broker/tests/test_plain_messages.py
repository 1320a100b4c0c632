"""SendMessages, PullMessages, queries: the way of generated clients."""

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_record.single.message_id import encode_offset_message_id


def send(broker, *messages, topic="orders", **fields):
    request = send_pb.SendMessagesRequest(topic=topic, messages=messages, **fields)
    return broker.sends.SendMessages(request)


async def pull(broker, queue_id=0, queue_offset=0, **fields):
    position = pull_pb.PullPosition(topic="orders", queue_id=queue_id, queue_offset=queue_offset)
    request = pull_pb.PullMessagesRequest(consumer_group="group", position=position, **fields)
    return await broker.pulls.PullMessages(request)


def full_message():
    message = message_pb.Message(
        topic="orders",
        body=b"body",
        tag="created",
        keys=["k1", "k2"],
        message_group="customer-7",
        properties={"color": "red", "\N{SNOWMAN}": "\N{SNOWMAN}"},
        unique_id="U1",
        flag=-5,
        compression=message_pb.COMPRESSION_ZSTD,
    )
    message.create_time.FromMilliseconds(1_700_000_000_123)
    return message


async def test_a_message_comes_back_with_all_its_fields(broker):
    await broker.create_topic("orders", 2)
    sent = await send(broker, full_message(), queue_id=1)
    pulled = await pull(broker, 1)
    (message,) = pulled.messages
    expected = full_message()
    for name in (
        *("topic", "body", "tag", "keys", "message_group", "properties", "unique_id", "flag"),
        *("compression", "create_time"),
    ):
        assert getattr(message, name) == getattr(expected, name), name
    assert message.message_type == message_pb.MESSAGE_TYPE_FIFO
    position = message.position
    assert (position.broker_name, position.queue_id, position.queue_offset) == ("broker-a", 1, 0)
    assert position.producer_address.startswith("127.0.0.1:")
    assert position == sent.messages[0].position
    assert sent.messages[0].unique_id == "U1"
    assert sent.acknowledged_level == message_pb.ACKNOWLEDGED_LEVEL_MEMORY
    assert (pulled.next_queue_offset, pulled.max_queue_offset) == (1, 1)


async def test_what_is_left_out_is_filled_in(broker):
    sent = await send(broker, {"body": b"a"}, {"body": b"b"}, queue_id=0)
    first, second = sent.messages
    assert len(first.unique_id) == 32
    assert first.unique_id != second.unique_id
    (message, _) = (await pull(broker)).messages
    assert message.unique_id == first.unique_id
    assert message.create_time.seconds > 1_700_000_000
    assert message.message_type == message_pb.MESSAGE_TYPE_NORMAL
    assert dict(message.properties) == {}


async def test_the_broker_chooses_a_queue(broker):
    await broker.create_topic("orders", 4)
    queues = [(await send(broker, {"body": b"a"})).messages[0].position.queue_id for _ in range(8)]
    assert sorted(queues) == [0, 0, 1, 1, 2, 2, 3, 3]
    grouped = {
        (await send(broker, {"body": b"a", "message_group": "g"})).messages[0].position.queue_id
        for _ in range(5)
    }
    assert len(grouped) == 1


async def test_a_tag_that_only_has_the_hash_of_a_wanted_one_never_comes(broker):
    # "Aa" and "BB" have the same hash, as have all strings made of them.
    tags = ["BB", "Aa", "BB", "BB", "Aa"]
    await send(broker, *({"body": b"%d" % n, "tag": tag} for n, tag in enumerate(tags)), queue_id=0)
    expression = subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text="Aa")
    pulled = await pull(broker, filter=expression)
    assert [message.body for message in pulled.messages] == [b"1", b"4"]
    assert pulled.next_queue_offset == 5


async def test_a_filter_works_on_plain_messages(broker):
    await send(broker, {"body": b"a", "tag": "x"}, {"body": b"b", "tag": "y"}, queue_id=0)
    expression = subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text="y")
    pulled = await pull(broker, filter=expression)
    assert [message.body for message in pulled.messages] == [b"b"]


ILLEGAL_MESSAGES = (
    ({"topic": "other"}, "FIELD_INVALID"),
    ({"tag": "a||b"}, "MESSAGE_ILLEGAL"),
    ({"tag": "a\x01"}, "MESSAGE_ILLEGAL"),
    ({"tag": " a"}, "MESSAGE_ILLEGAL"),
    ({"keys": ["a b"]}, "MESSAGE_ILLEGAL"),
    ({"keys": [""]}, "MESSAGE_ILLEGAL"),
    ({"keys": ["k"] * 300}, "MESSAGE_ILLEGAL"),
    ({"properties": {"REAL_TOPIC": "x"}}, "MESSAGE_ILLEGAL"),
    ({"properties": {"TRAN_PARKED": "x"}}, "MESSAGE_ILLEGAL"),
    ({"properties": {"a\x01": "x"}}, "MESSAGE_ILLEGAL"),
    ({"properties": {"a": "x\x02"}}, "MESSAGE_ILLEGAL"),
    ({"properties": {"a": "x" * 33_000}}, "MESSAGE_ILLEGAL"),
    ({"compression": 77}, "MESSAGE_ILLEGAL"),
    ({"message_type": 77}, "MESSAGE_ILLEGAL"),
    ({"message_type": message_pb.MESSAGE_TYPE_FIFO}, "MESSAGE_ILLEGAL"),
    ({"create_time": {"seconds": 2**62}}, "FIELD_INVALID"),
    ({"message_type": message_pb.MESSAGE_TYPE_DELAY}, "MESSAGE_ILLEGAL"),
    ({"message_type": message_pb.MESSAGE_TYPE_TRANSACTION}, "MESSAGE_ILLEGAL"),
    ({"body": b"x" * ((4 << 20) + 1)}, "MESSAGE_TOO_LARGE"),
)


async def test_illegal_messages_take_all_of_their_call_along(broker, refused):
    await broker.create_topic("orders")
    for message, reason in ILLEGAL_MESSAGES:
        failure = await refused(send(broker, {"body": b"good"}, message, queue_id=0))
        assert failure.reason == reason, message.keys()
        assert failure.metadata.get("position", "1") == "1"
    assert (await pull(broker)).messages == []


async def test_illegal_messages_create_no_topic(broker, refused):
    await refused(send(broker, {"tag": "a||b"}))
    await refused(send(broker, {"body": b"a"}, queue_id=4))
    call = broker.topics.GetTopic(topic_pb.GetTopicRequest(topic="orders"))
    assert (await refused(call)).reason == "TOPIC_NOT_FOUND"


async def test_calls_that_make_no_sense(broker, refused):
    await broker.create_topic("orders")
    assert (await refused(send(broker))).reason == "FIELD_INVALID"
    assert (await refused(send(broker, *([{}] * 4097)))).reason == "FIELD_INVALID"
    assert (await refused(send(broker, {}, queue_id=-1))).reason == "FIELD_INVALID"
    assert (await refused(send(broker, {}, queue_id=10**9))).reason == "QUEUE_NOT_FOUND"
    mixed = send(broker, {"message_group": "a"}, {"message_group": "b"})
    assert (await refused(mixed)).reason == "FIELD_INVALID"


async def test_pull_errors_are_for_the_call(broker, refused):
    await broker.create_topic("orders")
    assert (await refused(pull(broker, 0, 5))).reason == "QUEUE_OFFSET_OUT_OF_RANGE"
    assert (await refused(pull(broker, 9))).reason == "QUEUE_NOT_FOUND"


async def test_a_message_is_found_by_its_id(broker, refused):
    sent = await send(broker, full_message(), queue_id=0)
    message_id = sent.messages[0].position.message_id
    response = await broker.queries.GetMessage(query_pb.GetMessageRequest(message_id=message_id))
    assert response.message.body == b"body"
    assert response.message.position.message_id == message_id

    # Clients know the broker by its address, whatever stood in its settings.
    address = broker.address
    offset = sent.messages[0].position.commit_log_offset
    own_id = encode_offset_message_id((address.host, address.port), offset)
    assert own_id == message_id, "the record bears the port that was bound, not 0"
    response = await broker.queries.GetMessage(query_pb.GetMessageRequest(message_id=own_id))
    assert response.message.body == b"body"

    async def failure(**fields):
        request = query_pb.GetMessageRequest(**fields)
        return (await refused(broker.queries.GetMessage(request))).reason

    assert await failure(message_id=message_id[:-1] + "1") == "MESSAGE_NOT_FOUND"
    assert await failure(message_id="0A" + message_id[2:]) == "MESSAGE_NOT_FOUND"
    assert await failure(message_id=message_id, topic="other") == "MESSAGE_NOT_FOUND"
    assert await failure(message_id="xyz") == "FIELD_INVALID"


async def test_large_messages_come_page_by_page(broker):
    for number in range(5):
        await send(broker, {"body": b"%d" % number * (2 << 20), "keys": ["k"]})
    request = query_pb.QueryMessagesRequest(topic="orders", key="k")
    pages = []
    while not pages or pages[-1].truncated:
        if pages:
            oldest = pages[-1].messages[-1].position.commit_log_offset
            request.before_commit_log_offset = oldest
        pages.append(await broker.queries.QueryMessages(request))
    assert [len(page.messages) for page in pages] == [4, 1]
    assert b"".join(m.body[:1] for page in pages for m in page.messages) == b"43210"


async def test_messages_are_found_by_key_and_unique_id(broker, refused):
    for number in range(5):
        await send(broker, {"body": b"%d" % number, "keys": ["k"], "unique_id": f"U{number}"})

    async def query(**fields):
        request = query_pb.QueryMessagesRequest(topic="orders", **fields)
        response = await broker.queries.QueryMessages(request)
        return [message.body for message in response.messages], response.truncated

    assert await query(key="k") == ([b"4", b"3", b"2", b"1", b"0"], False)
    assert await query(key="k", message_count_max=2) == ([b"4", b"3"], True)
    assert await query(unique_id="U3") == ([b"3"], False)
    assert await query(key="other") == ([], False)
    assert await query(key="k", end_time={"seconds": 1}) == ([], False)
    assert await query(key="k", begin_time={"seconds": 10**10}) == ([], False)
    for fields in ({"key": ""}, {"key": "k", "message_count_max": 65}):
        request = query_pb.QueryMessagesRequest(topic="orders", **fields)
        assert (await refused(broker.queries.QueryMessages(request))).reason == "FIELD_INVALID"
