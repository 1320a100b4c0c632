"""The types of topics: some do not take every message."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from ariane.broker.v1.topic_service_pb2 import ListTopicsRequest, ListTopicsResponse, Topic
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.common.v1.message_pb2 import MessageType
from ariane_sdk.translation import error_from_rpc
from ariane_spark.calls.channels import Channels
from ariane_spark.calls.repetition import Repetition
from ariane_spark.calls.routes import Routes
from ariane_spark.options.options import RequestPolicy
from ariane_wire import CallFailed

PAGE_SIZE: Final = 1000

_POLICY: Final = RequestPolicy()
_TIMEOUT_S: Final = _POLICY.timeout_ms / 1000


def topic_types(endpoints: str) -> dict[str, str]:
    """The type of each topic that has one: NORMAL, FIFO, DELAY or TRANSACTION.

    Topics that the user may not see are missing.

    Args:
        endpoints: Name servers, ``host:port``, separated by commas.

    Raises:
        ArianeError: No name server answers, or a broker does not.
    """
    channels, repetition = Channels(), Repetition(_POLICY)
    routes = Routes(endpoints, channels, timeout_s=_TIMEOUT_S)
    brokers = repetition.ask(routes.brokers)
    return {
        topic.topic: MessageType.Name(topic.message_type).removeprefix("MESSAGE_TYPE_")
        for name, address in brokers.addresses.items()
        for topic in _topics_of(
            TopicServiceStub(channels.to(address)), f"broker {name} at {address}", repetition
        )
        if topic.message_type
    }


def _topics_of(stub: TopicServiceStub, peer: str, repetition: Repetition) -> Iterator[Topic]:
    request = ListTopicsRequest(page_size=PAGE_SIZE)
    while True:
        answer = repetition.ask(partial(_page, stub, request, peer))
        yield from answer.topics
        if not answer.next_page_token:
            return
        request.page_token = answer.next_page_token


def _page(stub: TopicServiceStub, request: ListTopicsRequest, peer: str) -> ListTopicsResponse:
    try:
        return stub.ListTopics(request, timeout=_TIMEOUT_S)
    except CallFailed as failure:
        raise error_from_rpc(failure, peer=peer) from failure
