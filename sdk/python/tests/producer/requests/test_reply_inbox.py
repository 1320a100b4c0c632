"""The inbox of replies against a played broker."""

import asyncio
from types import SimpleNamespace

import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from ariane.broker.v1.pull_service_pb2 import PullRecordsResponse, QueueRecords
from ariane_sdk import ProducerSettings
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.errors import RouteNotFound, SendError, ServiceUnavailable
from ariane_sdk.message import Message
from ariane_sdk.producer.requests.request_reply import Requests
from ariane_sdk.runtime.clock import SystemClock


def refused(reason, **metadata):
    packed = Any()
    packed.Pack(ErrorInfo(domain="ariane.mq", reason=reason, metadata=metadata))
    return Status(code=11, details=[packed])


class PlayedBroker:
    """Answers pulls with what is given, and remembers where they read."""

    read_address = "127.0.0.1:1"
    broker_name = "broker-a"
    read_queue_count = 1

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def PullRecords(self, request, timeout):  # noqa: N802, ASYNC109 - the stub's names.
        self.asked += [(each.queue_offset, each.log_epoch) for each in request.positions]
        return PullRecordsResponse(queues=[self.answers.pop(0)])


def requests_of(session):
    parts = SimpleNamespace(
        session=session, settings=ProducerSettings(), clock=SystemClock(), unique_ids=None
    )
    return Requests(parts, "me")


@pytest.mark.parametrize(
    ("refusal", "goes_on"),
    [
        ({"error": refused("QUEUE_CUT", end="2"), "log_epoch": 8}, (2, 8)),
        (
            {
                "error": refused("QUEUE_OFFSET_OUT_OF_RANGE"),
                "min_queue_offset": 1,
                "max_queue_offset": 3,
                "log_epoch": 8,
            },
            (3, 8),
        ),
    ],
)
async def test_a_queue_that_lost_its_end_is_read_on_from_there(refusal, goes_on):
    broker = PlayedBroker(
        QueueRecords(topic="replies", **refusal),
        QueueRecords(topic="replies", next_queue_offset=9, log_epoch=8),
        QueueRecords(topic="replies", next_queue_offset=9, log_epoch=8),
    )
    route = SimpleNamespace(broker=lambda _name: broker)

    async def get(_topic):
        return route

    session = SimpleNamespace(
        routes=SimpleNamespace(on_change=lambda _told: None, get=get),
        connections=SimpleNamespace(pull=lambda _address: broker),
    )
    requests = requests_of(session)
    offsets = {0: QueuePosition(5, 7)}
    async with asyncio.timeout(60):
        for _ in range(3):
            await requests._pull("replies", "broker-a", offsets, 1.0)
    assert broker.asked == [(5, 7), goes_on, (9, 8)]


class UnknownTopic:
    """Routes and name servers that hear late of a reply topic; they know no broker to make it."""

    def __init__(self, unknown_count):
        self.unknown_count = unknown_count

    def on_change(self, _told):
        pass

    async def get(self, _topic):
        raise RouteNotFound("unknown")

    async def get_for_send(self, _topic):
        return SimpleNamespace(brokers=[SimpleNamespace(cluster_name="c")])

    async def refresh(self, topic):
        self.unknown_count -= 1
        if self.unknown_count >= 0:
            await self.get(topic)
        return SimpleNamespace(brokers=[])

    async def list_brokers(self, _cluster_name):
        return []


def inbox_of(routes):
    connections = SimpleNamespace(topics=None)
    session = SimpleNamespace(routes=routes, name_servers=routes, connections=connections)
    return requests_of(session)


async def test_a_reply_topic_that_was_just_made_is_waited_for():
    routes = UnknownTopic(unknown_count=2)
    async with asyncio.timeout(30):
        await inbox_of(routes).listen("c", "c_REPLY_TOPIC")
    assert routes.unknown_count < 0


async def test_a_request_whose_reply_topic_cannot_be_made_was_surely_not_sent():
    routes = UnknownTopic(unknown_count=0)

    async def fail(_cluster_name):
        raise ServiceUnavailable("broken", outcome_unknown=True)

    routes.list_brokers = fail
    requests = inbox_of(routes)
    with pytest.raises(SendError) as refused:
        await requests.request(Message("orders", b"why?"), None, 30)
    assert not refused.value.outcome_unknown
