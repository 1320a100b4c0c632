"""What the rooms of a producer share."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk.net.connections import Connections
from ariane_sdk.producer.queues.latency import BrokerLatencies
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings


class ProducerParts(NamedTuple):
    """The parts of one producer that several of its rooms use."""

    connections: Connections
    routes: Routes
    unsettled: Unsettled
    """The rows without an outcome."""
    latencies: BrokerLatencies
    """Which brokers are avoided."""
    unique_ids: UniqueIdGenerator
    settings: ProducerSettings
    clock: Clock
    random: Random
