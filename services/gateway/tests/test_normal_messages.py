"""Normal messages: sent, received, acknowledged."""

import hashlib

from google.protobuf.timestamp_pb2 import Timestamp

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb


async def test_a_route_leads_to_where_the_client_called(client, ariane_topic):
    route = await client.queues(ariane_topic)
    assert route.status.code == dp.OK
    assert [queue.id for queue in route.message_queues] == [0, 1, 2, 3]
    assert {queue.permission for queue in route.message_queues} == {dp.READ_WRITE}
    assert {queue.broker.id for queue in route.message_queues} == {0}
    assert route.message_queues[0].broker.endpoints == client.endpoints
    assert (await client.queues("nobody-knows-it")).status.code == dp.TOPIC_NOT_FOUND
    assert (await client.queues("")).status.code == dp.ILLEGAL_TOPIC


async def test_a_message_is_handed_out_as_it_was_sent_and_only_until_it_is_acknowledged(
    client, ariane_topic, group
):
    sent = await client.send(
        ariane_topic, b"a teapot", tag="made", keys=["one", "two"], properties={"colour": "blue"}
    )
    assert sent.message_id == sent.transaction_id
    status, (message,) = await client.receive(ariane_topic, group)
    assert status.code == dp.OK
    said = message.system_properties
    assert (message.topic.name, message.body) == (ariane_topic, b"a teapot")
    assert dict(message.user_properties) == {"colour": "blue"}
    assert (said.tag, list(said.keys)) == ("made", ["one", "two"])
    assert (said.message_id, said.message_type) == (sent.message_id, dp.NORMAL)
    assert said.body_encoding == dp.IDENTITY
    assert (
        said.body_digest.checksum
        == hashlib.md5(b"a teapot", usedforsecurity=False).hexdigest().upper()
    )
    assert (said.delivery_attempt, said.queue_offset) == (1, sent.offset)
    acked = await client.ack(ariane_topic, group, message)
    assert (acked.status.code, acked.entries[0].status.code) == (dp.OK, dp.OK)
    assert (await client.receive(ariane_topic, group))[0].code == dp.MESSAGE_NOT_FOUND


async def test_a_message_that_was_made_at_no_time_that_there_is_was_made_now(
    client, ariane_topic, group
):
    await client.send(ariane_topic, b"old", born_timestamp=Timestamp(seconds=1, nanos=5_000_000))
    for seconds in (1 << 60, -5, 253_402_300_800):
        await client.send(ariane_topic, b"odd", born_timestamp=Timestamp(seconds=seconds))
    _, messages = await client.receive(ariane_topic, group)
    born_s = {each.body: each.system_properties.born_timestamp.seconds for each in messages}
    assert len(messages) == 4
    assert born_s[b"old"] == 1
    assert 1_500_000_000 < born_s[b"odd"] < 10_000_000_000


async def test_an_assignment_is_all_queues_of_a_broker(client, ariane_topic, group):
    answer = await client.call(
        "QueryAssignment",
        pb.QueryAssignmentRequest(
            topic=dp.Resource(name=ariane_topic),
            group=dp.Resource(name=group),
            endpoints=client.endpoints,
        ),
    )
    assert answer.status.code == dp.OK
    (assignment,) = answer.assignments
    assert assignment.message_queue.id == -1
    assert assignment.message_queue.broker.endpoints == client.endpoints


async def test_a_client_without_an_id_is_refused_by_a_status(client, ariane_topic):
    client.metadata = []
    assert (await client.queues(ariane_topic)).status.code == dp.CLIENT_ID_REQUIRED
    status, messages = await client.receive(ariane_topic, "group", broker="broker")
    assert (status.code, messages) == (dp.CLIENT_ID_REQUIRED, [])
