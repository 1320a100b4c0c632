"""What Prometheus reads of a broker, on its own page."""

import asyncio
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ariane.broker.v1 import client_question_pb2 as question_pb
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1.message_pb2 import Message
from ariane_testkit.free_ports import free_port
from services.broker.tests.receive.receive_calls import Receiver


@pytest.fixture
async def scraped(running):
    """A broker with metrics, and a function that reads them."""
    port = free_port()
    address = f"127.0.0.1:{port}"

    def read():
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    async def scrape():
        return await asyncio.to_thread(read)

    async with running(metrics_listen=address) as broker:
        yield broker, scrape


async def test_what_is_stored_and_what_a_group_has_not_consumed(scraped):
    broker, scrape = scraped
    await broker.create_topic("orders", 2)
    await broker.store("orders", [b"a", b"b", b"c"], 0)
    await broker.store("orders", [b"d"], 1)
    await broker.store_offset("billing", "orders", 0, 1)
    await broker.store_offset("billing", "orders", 1, 1)
    values = await scrape()
    assert values["ariane_topic_messages_stored_total", "orders"] == 4
    assert values["ariane_topic_messages_kept", "orders"] == 4
    assert values["ariane_consumer_lag", "billing", "orders"] == 2
    assert 0 <= values["ariane_consumer_lag_age_seconds", "billing", "orders"] < 3600
    assert values["ariane_messages_stored_total",] == 4
    # A lag of two records, each of one octet and what it needs.
    assert 2 * 88 < values["ariane_consumer_lag_size_bytes", "billing", "orders"] < 2 * 250
    assert values["ariane_append_duration_seconds_count",] >= 2
    assert values["ariane_reads_total",] == 0
    await broker.bodies("orders")
    await Receiver(broker).receive("orders")
    values = await scrape()
    assert values["ariane_reads_total",] == 3
    assert values["ariane_read_duration_seconds_count",] == 1
    assert values["ariane_broker_writable",] == 1
    assert values["ariane_storage_size_bytes",] > 0
    calls = [key for key in values if key[0] == "rpc_server_call_duration_seconds_count"]
    assert any("ariane.broker.v1.TopicService/CreateTopic" in key for key in calls)
    assert values["process_resident_memory_bytes",] > 0


async def test_messages_that_have_expired_are_counted_by_group_and_topic(scraped):
    broker, scrape = scraped
    await broker.create_topic("codes")
    old = Message(body=b"old")
    old.expire_time.FromMilliseconds(1_700_000_000_000)
    young = Message(body=b"young")
    young.expire_time.FromMilliseconds(8_000_000_000_000)
    request = send_pb.SendMessagesRequest(topic="codes", messages=[old, old, young])
    sent = await broker.sends.SendMessages(request)
    assert await broker.bodies("codes", group="pulling") == [b"young"]
    (received,) = await Receiver(broker, "receiving").receive("codes")
    assert received.message.body == b"young"
    assert received.message.expire_time == young.expire_time
    values = await scrape()
    for group in "pulling", "receiving":
        assert values["ariane_messages_expired_total", "codes", group] == 2
        await broker.store_offset(group, "codes", 0, 3)
        asked = offset_pb.ListConsumerLagsRequest(consumer_group=group, topic="codes")
        (lag,) = (await broker.offsets.ListConsumerLags(asked)).lags
        assert lag.expired_count == 2
    # Who asks for a message by its id sees it, and when it expired.
    message_id = sent.messages[0].position.message_id
    found = await broker.queries.GetMessage(query_pb.GetMessageRequest(message_id=message_id))
    assert (found.message.body, found.message.expire_time) == (b"old", old.expire_time)
    # A later group or topic of the same name has other messages.
    deleted = group_pb.DeleteConsumerGroupRequest(consumer_group="pulling")
    await broker.groups.DeleteConsumerGroup(deleted)
    values = await scrape()
    assert ("ariane_messages_expired_total", "codes", "pulling") not in values
    assert values["ariane_messages_expired_total", "codes", "receiving"] == 2
    await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="codes"))
    assert not [key for key in await scrape() if key[0] == "ariane_messages_expired_total"]


async def test_queues_that_members_hold_are_counted(scraped):
    broker, scrape = scraped
    call = broker.clients.Attach()
    membership = client_pb.Membership(consumer_group="billing")
    hello = client_pb.ClientHello(client_id="a", memberships=[membership])
    await call.write(client_pb.AttachRequest(hello=hello))
    holds = [
        question_pb.QueueHold(
            consumer_group="billing", queue_id=each, reason=question_pb.HOLD_REASON_FAILED_IN_ORDER
        )
        for each in range(2)
    ]
    heartbeat = client_pb.ClientHeartbeat(holds=holds)
    await call.write(client_pb.AttachRequest(heartbeat=heartbeat))
    while (await call.read()).WhichOneof("content") != "heartbeat_accepted":
        pass
    assert (await scrape())["ariane_consumer_holds", "billing", "failed_in_order"] == 2
    call.cancel()
