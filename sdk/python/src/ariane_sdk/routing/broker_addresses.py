"""Where a broker is, by the routes that a client knows."""

from __future__ import annotations

from ariane_sdk.errors import QueueNotFound, ServiceUnavailable
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.routing.routes import Routes


def broker_of(routes: Routes, queue: MessageQueue) -> BrokerRoute:
    """The broker of a queue, by the known route.

    Raises:
        ServiceUnavailable: The broker is in no known route.
    """
    route = routes.cached(queue.topic)
    broker = route.broker(queue.broker_name) if route is not None else None
    if broker is None:
        raise ServiceUnavailable(f"broker {queue.broker_name} is in no route now", retriable=True)
    return broker


def broker_named(routes: Routes, broker_name: str) -> BrokerRoute:
    """A broker, for a call about queues of several topics, by the latest route that has it.

    A topic that was moved away from the broker, or whose route is kept though no name server has it
    any longer, must not hold up the others.

    Raises:
        ServiceUnavailable: No known route has an address of the broker.
    """
    for route in routes.latest_first(routes.known):
        broker = route.broker(broker_name)
        if broker is not None and broker.read_address:
            return broker
    raise ServiceUnavailable(f"broker {broker_name} is in no route now", retriable=True)


async def find_broker(routes: Routes, queue: MessageQueue) -> BrokerRoute:
    """The broker of a queue; asks name servers if no known route has it.

    Raises:
        QueueNotFound: The broker does not have the topic.
        RouteNotFound: No live broker has the topic.
        NameServersUnreachable: No name server answered.
    """
    broker = (await routes.get(queue.topic)).broker(queue.broker_name)
    if broker is None:
        broker = (await routes.refresh(queue.topic)).broker(queue.broker_name)
    if broker is None:
        raise QueueNotFound(
            f"broker {queue.broker_name!r} does not carry topic {queue.topic!r} now", retriable=True
        )
    return broker


async def address_for_send(routes: Routes, topic: str, broker_name: str) -> str:
    """A broker's address for sends to a topic, including one that a send will create.

    Raises:
        ServiceUnavailable: The broker does not have the topic now.
        RouteNotFound: As ``Routes.get_for_send``; so with NameServersUnreachable.
    """
    route = routes.known.get(topic) or await routes.get_for_send(topic)
    address = route.primary_addresses.get(broker_name, "")
    if not address:
        raise ServiceUnavailable(
            f"broker {broker_name} does not carry {topic!r} now", retriable=True
        )
    return address
