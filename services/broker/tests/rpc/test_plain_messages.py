"""SendMessages, PullMessages, queries: the way of generated clients."""

from google.rpc.error_details_pb2 import ErrorInfo

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_record.single.message_id import encode_offset_message_id
from ariane_testkit.java_names import JAVA_TOPIC, leave_java_names


def send(broker, *messages, topic="orders", **fields):
    request = send_pb.SendMessagesRequest(topic=topic, messages=messages, **fields)
    return broker.sends.SendMessages(request)


async def pull(broker, queue_id=0, queue_offset=0, *, topic="orders", filter=None, **fields):  # noqa: A002 - as in the contract
    request = pull_pb.PullMessagesRequest(
        consumer_group="group", positions=[position_at(topic, queue_id, queue_offset)], **fields
    )
    if filter is not None:
        request.subscriptions.add(topic=topic, filter=filter)
    (queue,) = (await broker.pulls.PullMessages(request)).queues
    return queue


def position_at(topic, queue_id, queue_offset=0):
    return pull_pb.PullPosition(topic=topic, queue_id=queue_id, queue_offset=queue_offset)


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


async def test_a_topic_that_a_java_broker_left_is_written_to_whatever_its_name(running, tmp_path):
    leave_java_names(tmp_path / "store", topics=[JAVA_TOPIC])
    async with running() as broker:
        await send(broker, message_pb.Message(topic=JAVA_TOPIC, body=b"a"), topic=JAVA_TOPIC)
        assert [m.body for m in (await pull(broker, topic=JAVA_TOPIC)).messages] == [b"a"]


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


async def test_missing_fields_are_filled_in(broker):
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


async def test_a_filter_text_without_its_kind_is_refused(broker, refused):
    await send(broker, {"body": b"a", "tag": "x"}, queue_id=0)
    failure = await refused(pull(broker, filter=subscription_pb.FilterExpression(text="y")))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "filter.kind")


ILLEGAL_MESSAGES = (
    ({"topic": "other"}, "FIELD_INVALID"),
    ({"tag": "a||b"}, "MESSAGE_ILLEGAL"),
    ({"tag": "a|b"}, "MESSAGE_ILLEGAL"),
    ({"tag": "*"}, "MESSAGE_ILLEGAL"),
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


async def test_a_half_message_goes_alone_and_in_no_stream(broker, refused):
    await broker.create_topic("orders")
    half = {"body": b"paid", "unique_id": "t", "message_type": message_pb.MESSAGE_TYPE_TRANSACTION}
    sent = await send(broker, half, half_group="pay")
    assert ([each.unique_id for each in sent.messages], sent.duplicate) == (["t"], False)
    again = await send(broker, half, half_group="pay")
    assert (again.messages[0].position, again.duplicate) == (sent.messages[0].position, True)
    sequence = send_pb.ProducerSequence(producer_id=1)
    for messages, fields, reason in (
        ([half, half | {"unique_id": "u"}], {}, "FIELD_INVALID"),
        ([half], {"queue_id": 0, "sequence": sequence}, "FIELD_INVALID"),
        ([half | {"delay_level": 3}], {}, "MESSAGE_ILLEGAL"),
        ([half | {"message_type": message_pb.MESSAGE_TYPE_NORMAL}], {}, "MESSAGE_ILLEGAL"),
        ([half], {"half_group": "shop"}, "TRANSACTION_FOREIGN"),
    ):
        call = send(broker, *messages, **({"half_group": "pay"} | fields))
        assert (await refused(call)).reason == reason
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


def reason_of(error):
    (detail,) = (detail for detail in error.details if detail.Is(ErrorInfo.DESCRIPTOR))
    info = ErrorInfo()
    detail.Unpack(info)
    return info.reason


async def test_one_call_pulls_many_queues_and_an_error_is_of_its_queue(broker):
    await broker.create_topic("orders", 2)
    await send(broker, {"body": b"a"}, {"body": b"b"}, queue_id=0)
    await send(broker, {"body": b"c"}, queue_id=1)
    request = pull_pb.PullMessagesRequest(
        consumer_group="group",
        positions=[
            position_at("orders", 0, 1),
            position_at("orders", 9),
            position_at("orders", 1),
            position_at("orders", 1, 5),
        ],
    )
    first, missing, second, beyond = (await broker.pulls.PullMessages(request)).queues
    assert [m.body for m in (*first.messages, *second.messages)] == [b"b", b"c"]
    assert (first.queue_id, second.queue_id, first.next_queue_offset) == (0, 1, 2)
    assert reason_of(missing.error) == "QUEUE_NOT_FOUND"
    assert reason_of(beyond.error) == "QUEUE_OFFSET_OUT_OF_RANGE"


async def test_no_more_messages_come_than_are_asked_for(broker):
    await send(broker, *({"body": b"%d" % n} for n in range(9)), queue_id=0)
    assert len((await pull(broker, message_count_max=4)).messages) == 4
    assert len((await pull(broker, size_bytes_max=1)).messages) == 1


REPLIES = "DefaultCluster_REPLY_TOPIC"


async def test_a_request_and_its_reply_are_said_by_fields(broker, refused):
    address = message_pb.ReplyAddress(
        correlation_id="c-1", client_id="go@1", time_to_live={"seconds": 3}
    )
    await send(broker, {"body": b"2 + 2", "reply_address": address}, queue_id=0)
    (request,) = (await pull(broker)).messages
    waits = request.reply_address
    assert (waits.correlation_id, waits.client_id, waits.time_to_live.seconds) == ("c-1", "go@1", 3)
    assert (waits.cluster_name, waits.reply_topic) == ("DefaultCluster", REPLIES)
    assert dict(request.properties) == {}

    await send(broker, {"body": b"4", "reply_address": waits}, topic=REPLIES, queue_id=0)
    own = subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text="go@1")
    (reply,) = (await pull(broker, topic=REPLIES, filter=own)).messages
    assert (reply.body, reply.tag, reply.reply_address) == (b"4", "go@1", waits)
    other = subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text="go@2")
    assert (await pull(broker, topic=REPLIES, filter=other)).messages == []

    nobody = await refused(send(broker, {"body": b"4"}, topic=REPLIES, queue_id=0))
    assert (nobody.reason, "reply_address" in nobody.metadata["rule"]) == ("MESSAGE_ILLEGAL", True)


async def test_a_priority_is_said_by_a_field(broker):
    await send(broker, {"body": b"a", "priority": -3}, {"body": b"b"}, queue_id=0)
    first, second = (await pull(broker)).messages
    assert (first.priority, dict(first.properties)) == (-3, {})
    assert not second.HasField("priority")


ILLEGAL_ADDRESSES = (
    {},
    {"correlation_id": "c"},
    {"client_id": "c"},
    {"correlation_id": "c\x01", "client_id": "c"},
    {"correlation_id": "c", "client_id": "a||b"},
    {"correlation_id": "c", "client_id": " c"},
    {"correlation_id": "c" * 256, "client_id": "c"},
    {"correlation_id": "c", "client_id": "c", "time_to_live": {"seconds": -1}},
    {"correlation_id": "c", "client_id": "c", "cluster_name": "other"},
)


async def test_addresses_that_nobody_could_reply_to_are_refused(broker, refused):
    for address in ILLEGAL_ADDRESSES:
        call = send(broker, {"body": b"a", "reply_address": address}, queue_id=0)
        assert (await refused(call)).reason == "MESSAGE_ILLEGAL", address
    by_name = send(broker, {"body": b"a", "properties": {"CORRELATION_ID": "c"}}, queue_id=0)
    assert (await refused(by_name)).reason == "MESSAGE_ILLEGAL"


async def test_a_fifo_topic_wants_the_queue_that_a_name_server_tells(broker, refused):
    fifo = topic_pb.Topic(
        topic="orders",
        read_queue_count=4,
        write_queue_count=4,
        message_type=message_pb.MESSAGE_TYPE_FIFO,
    )
    await broker.topics.CreateTopic(topic_pb.CreateTopicRequest(topic=fifo))
    chosen = await refused(send(broker, {"message_group": "g"}))
    assert (chosen.reason, chosen.metadata["field"]) == ("FIELD_INVALID", "queue_id")
    await send(broker, {"message_group": "g"}, queue_id=1)


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
