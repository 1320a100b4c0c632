"""Requests and their replies, over real brokers."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest

from ariane_record.names import reply_topic
from ariane_sdk import ClusterClient, Message, Producer, PushConsumer, errors, sync
from ariane_sdk.producer.requests.request_reply import reply_to

_numbers = itertools.count()


@pytest.fixture
async def topic(cluster):
    name = f"questions-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name)
    return name


@pytest.fixture
async def producer(cluster):
    async with Producer(cluster.name_servers) as running:
        yield running


class Answering:
    """A consumer that answers with the request in capitals."""

    def __init__(self, cluster, topic, *, group="answers"):
        self.got = []
        self.hold = asyncio.Event()
        self.hold.set()
        self._producer = Producer(cluster.name_servers)
        self._consumer = PushConsumer(
            cluster.name_servers,
            group=group,
            subscriptions={topic: "*"},
            listener=self.listen,
            start="earliest",
        )

    async def listen(self, messages):
        await self.hold.wait()
        for message in messages:
            self.got.append(message)
            await self._producer.reply(message, message.body.upper(), properties={"who": "me"})

    async def __aenter__(self):
        await self._producer.start()
        await self._consumer.start()
        await self._consumer.wait_assigned()
        return self

    async def __aexit__(self, *_):
        await self._consumer.close()
        await self._producer.close()


async def test_a_request_gets_its_reply(cluster, topic, producer):
    async with Answering(cluster, topic) as answering:
        reply = await producer.request(
            Message(topic, b"hello", tag="greeting", keys=("k",), properties={"a": "b"}),
            timeout_s=10,
        )
    [request] = answering.got

    assert reply.body == b"HELLO"
    assert reply.properties["who"] == "me"
    assert reply.properties["MSG_TYPE"] == "reply"
    assert reply.topic == "DefaultCluster_REPLY_TOPIC"
    for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"):
        assert reply.properties[name] == request.properties[name]
    assert request.properties["TTL"] == "10000"
    assert (request.tag, request.keys, request.properties["a"]) == ("greeting", ("k",), "b")


async def test_every_requester_gets_its_own_replies(cluster, topic):
    async with (
        Answering(cluster, topic),
        Producer(cluster.name_servers) as one,
        Producer(cluster.name_servers) as other,
    ):
        asked = [
            (producer, f"{name}-{number}")
            for producer, name in ((one, "one"), (other, "other"))
            for number in range(50)
        ]
        replies = await asyncio.gather(
            *(
                producer.request(Message(topic, text.encode()), timeout_s=20)
                for producer, text in asked
            )
        )

    assert [reply.body.decode() for reply in replies] == [text.upper() for _, text in asked]


async def test_without_a_reply_time_is_up(cluster, topic, producer):
    with pytest.raises(errors.RequestTimeout, match="no reply within") as caught:
        await producer.request(Message(topic, b"anybody?"), timeout_s=1)

    assert caught.value.outcome_unknown
    assert producer._requests._waiting == {}


async def test_late_replies_are_dropped(cluster, topic, producer):
    async with Answering(cluster, topic) as answering:
        answering.hold.clear()
        with pytest.raises(errors.RequestTimeout):
            await producer.request(Message(topic, b"slow"), timeout_s=1)
        answering.hold.set()
        reply = await producer.request(Message(topic, b"next"), timeout_s=10)

        assert reply.body == b"NEXT"
        assert [message.body for message in answering.got] == [b"slow", b"next"]


async def test_a_second_reply_is_dropped(cluster, topic, producer):
    async with (
        Answering(cluster, topic, group="answers-1"),
        Answering(cluster, topic, group="answers-2"),
    ):
        for number in range(10):
            reply = await producer.request(Message(topic, b"%d" % number), timeout_s=10)
            assert reply.body == b"%d" % number


async def test_a_cancelled_request_waits_no_longer(cluster, topic, producer):
    request = asyncio.ensure_future(producer.request(Message(topic, b"x"), timeout_s=30))
    await asyncio.sleep(0.3)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request

    assert producer._requests._waiting == {}


async def test_only_requests_are_answered(cluster, topic, producer):
    result = await producer.send(Message(topic, b"no request"))
    got = asyncio.get_running_loop().create_future()

    async def listen(messages):
        got.set_result(messages[0])

    async with PushConsumer(
        cluster.name_servers,
        group="plain",
        subscriptions={topic: "*"},
        listener=listen,
        start="earliest",
    ):
        message = await asyncio.wait_for(got, 60)

    assert message.unique_id == result.unique_id
    with pytest.raises(errors.IllegalArgument, match="no request") as caught:
        await producer.reply(message, b"answer")
    assert caught.value.reason == "NO_REQUEST"


async def test_properties_of_the_system_stay_refused(cluster, topic, producer):
    with pytest.raises(errors.MessageIllegal, match="TTL"):
        await producer.request(Message(topic, b"x", properties={"TTL": "1"}), timeout_s=60)
    async with Answering(cluster, topic) as answering:
        await producer.request(Message(topic, b"x"), timeout_s=10)
    with pytest.raises(errors.MessageIllegal, match="MSG_TYPE"):
        reply_to(answering.got[0], b"x", {"MSG_TYPE": "other"})


@pytest.mark.parametrize(
    "later",
    [
        {"delay": timedelta(seconds=1)},
        {"deliver_at": datetime(2100, 1, 1, tzinfo=UTC)},
        {"delay_level": 1},
    ],
    ids=lambda later: next(iter(later)),
)
async def test_a_request_is_not_delayed(topic, producer, later):
    with pytest.raises(errors.MessageIllegal, match="a request is delivered at once"):
        await producer.request(Message(topic, b"x", **later), timeout_s=1)


async def test_a_request_without_name_servers_was_surely_not_sent():
    async with Producer("127.0.0.1:1") as alone:
        with pytest.raises((errors.RequestTimeout, errors.SendError)) as caught:
            await alone.request(Message("x", b"x"), timeout_s=0.5)
    assert not caught.value.outcome_unknown


async def test_replies_arrive_after_a_broker_came_back(fragile_cluster):
    async with ClusterClient(fragile_cluster.name_servers) as client:
        await client.create_topic("fragile")
    async with (
        Producer(fragile_cluster.name_servers) as producer,
        Answering(fragile_cluster, "fragile"),
    ):
        assert (await producer.request(Message("fragile", b"a"), timeout_s=10)).body == b"A"
        await fragile_cluster.brokers[0].restart()
        assert (await producer.request(Message("fragile", b"b"), timeout_s=60)).body == b"B"


def test_the_topic_bears_the_name_of_rocketmq():
    assert reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"


def test_blocking_requests_and_replies(cluster):
    with sync.ClusterClient(cluster.name_servers) as client:
        client.create_topic("blocking-questions", exists_ok=True)
    with sync.Producer(cluster.name_servers) as producer:

        def listen(messages):
            for message in messages:
                producer.reply(message, message.body[::-1])

        with sync.PushConsumer(
            cluster.name_servers,
            group="blocking-answers",
            subscriptions={"blocking-questions": "*"},
            listener=listen,
            start="earliest",
        ):
            reply = producer.request(Message("blocking-questions", b"abc"), timeout_s=10)

    assert reply.body == b"cba"
