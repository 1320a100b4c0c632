"""Messages that expire: no consumer is given them, however it consumes; readers are."""

from datetime import timedelta
from uuid import uuid4

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    QueueReader,
    ReceiveConsumer,
)
from ariane_sdk.errors import MessageIllegal

SOON, LATER = timedelta(milliseconds=1), timedelta(hours=1)


@pytest.mark.parametrize("kind", [PullConsumer, ReceiveConsumer])
async def test_an_expired_message_goes_to_readers_and_to_no_consumer(cluster, kind):
    topic = f"expiring-{uuid4().hex[:8]}"
    at = cluster.name_servers
    async with ClusterClient(at) as client, Producer(at) as producer:
        await client.create_topic(topic, queue_count=1)
        kept = Message(topic, b"kept", expire_after=LATER)
        sent = [Message(topic, b"gone", expire_after=SOON) for _ in range(20)]
        await producer.send_batch([*sent, kept])
        await producer.send(Message(topic, b"gone", expire_after=SOON))
        await producer.send(Message(topic, b"last"))
    options = {"group": f"g-{topic}", "subscriptions": {topic: "*"}}
    if kind is PullConsumer:
        options["start"] = "earliest"
    got = []
    async with kind(at, **options) as consumer:
        take = consumer.poll if kind is PullConsumer else consumer.receive_batch
        while len(got) < 2:
            got += await take()
    got.sort(key=lambda message: message.body)
    assert [message.body for message in got] == [b"kept", b"last"]
    assert (got[0].expire_time - got[0].born_time - LATER) < timedelta(seconds=5)
    assert got[1].expire_time is None
    async with QueueReader(at) as reader:
        for name in "broker-a", "broker-b":
            found = await reader.pull(MessageQueue(topic, name, 0), 0)
            if found.messages:
                got += found.messages
    assert [message.body for message in got].count(b"gone") == 21


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"expire_after": timedelta(0)}, "a millisecond at least"),
        ({"expire_after": 5}, "timedelta is expected"),
        ({"expire_after": SOON, "delay": LATER}, "expire before its delivery"),
        ({"properties": {"EXPIRES_AT_MS": "1"}}, "of the system"),
    ],
)
async def test_a_message_that_nobody_could_get_is_refused(cluster, given, words):
    async with Producer(cluster.name_servers) as producer:
        with pytest.raises(MessageIllegal, match=words):
            await producer.send(Message("any", b"", **given))
