"""The types of topics: some do not take every message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from ariane.broker.v1.topic_service_pb2 import ListTopicsRequest, ListTopicsResponse, Topic
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.common.v1.message_pb2 import MessageType
from ariane_sdk.translation import error_from_rpc
from ariane_spark.calls.connection import connect_brokers_once
from ariane_spark.calls.repetition import Repetition
from ariane_spark.options.options import ReadOptions
from ariane_wire import CallFailed

PAGE_SIZE: Final = 1000

_PREFIX: Final = "MESSAGE_TYPE_"
_NONE: Final = f"{_PREFIX}UNSPECIFIED"


def topic_types(options: ReadOptions) -> dict[str, str]:
    """The type of each topic that has one: NORMAL, FIFO, DELAY or TRANSACTION.

    Topics that the user may not see are missing, and those about which brokers disagree.

    Args:
        options: The cluster, what proves the user to it, and how it is asked.

    Raises:
        ArianeError: No name server answers, or a broker does not.
    """
    brokers = connect_brokers_once(options)
    repetition, timeout_s = Repetition(options.requests), options.requests.timeout_ms / 1000
    return agreed_types(
        topic
        for name, address in repetition.ask(brokers.routes.brokers).addresses.items()
        for topic in _topics_of(
            TopicServiceStub(brokers.channels.to(address)),
            f"broker {name} at {address}",
            repetition,
            timeout_s,
        )
    )


def agreed_types(topics: Iterable[Topic]) -> dict[str, str]:
    """The types on which all brokers of a topic agree; of others, only a send can tell.

    Args:
        topics: The topics of all brokers.
    """
    types = defaultdict[str, set[str]](set)
    for topic in topics:
        types[topic.topic].add(MessageType.Name(topic.message_type))
    return {
        topic: kind.removeprefix(_PREFIX)
        for topic, (kind, *others) in types.items()
        if kind != _NONE and not others
    }


def _topics_of(
    stub: TopicServiceStub, peer: str, repetition: Repetition, timeout_s: float
) -> Iterator[Topic]:
    request = ListTopicsRequest(page_size=PAGE_SIZE)
    while True:
        answer = repetition.ask(partial(_page, stub, request, peer, timeout_s))
        yield from answer.topics
        if not answer.next_page_token:
            return
        request.page_token = answer.next_page_token


def _page(
    stub: TopicServiceStub, request: ListTopicsRequest, peer: str, timeout_s: float
) -> ListTopicsResponse:
    try:
        return stub.ListTopics(request, timeout=timeout_s)
    except CallFailed as failure:
        raise error_from_rpc(failure, peer=peer) from failure
