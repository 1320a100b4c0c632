"""Who sends to topics, as brokers have noted of the calls that arrived."""

from __future__ import annotations

from ariane.admin.v1.client_service_pb2 import ClusterProducer
from ariane.broker.v1.topic_producer_pb2 import ListProducersRequest, TopicProducer
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.cluster_doors import ClusterDoors, all_pages
from ariane_sdk import LiveBroker


async def topic_producers(
    doors: ClusterDoors, answers: Answers, *, topic: str = "", producer_group: str = ""
) -> list[ClusterProducer]:
    """Producers by topic, client id and host; one that sends to several brokers is one.

    Args:
        doors: Connections to the brokers.
        answers: The brokers to ask; records silent ones.
        topic: Only producers of this topic; empty for all.
        producer_group: Only those that say this producer group; empty for all.

    Raises:
        CallError: As ``Answers.ask``.
    """

    async def at(broker: LiveBroker) -> tuple[str, list[TopicProducer]]:
        stub = doors.clients(broker.address)
        asked = ListProducersRequest(topic=topic)
        found = await all_pages(broker, stub.ListProducers, asked, lambda page: page.producers)
        return broker.broker_name, found

    known: dict[tuple[str, ...], ClusterProducer] = {}
    for broker_name, found in await answers.ask(at):
        for each in found:
            if producer_group not in {"", each.producer_group}:
                continue
            key = producer_key(each)
            if key in known:
                _add(known[key].producer, each)
            else:
                known[key] = ClusterProducer(producer=each)
            known[key].broker_names.append(broker_name)
    return [known[key] for key in sorted(known)]


def producer_key(producer: TopicProducer) -> tuple[str, ...]:
    """What is the same for a producer at all brokers."""
    host = producer.address.rpartition(":")[0]
    return (
        producer.topic,
        producer.client_id,
        host,
        producer.agent,
        producer.producer_group,
    )


def _add(known: TopicProducer, more: TopicProducer) -> None:
    """Add what another broker has noted."""
    known.message_count += more.message_count
    known.messages_per_second += more.messages_per_second
    if more.first_time.ToNanoseconds() < known.first_time.ToNanoseconds():
        known.first_time.CopyFrom(more.first_time)
    if more.last_time.ToNanoseconds() > known.last_time.ToNanoseconds():
        known.last_time.CopyFrom(more.last_time)
        known.address = more.address
