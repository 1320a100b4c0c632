"""All limits and peers, in the order in which they are run."""

from __future__ import annotations

from typing import Final

from peer_bench.contenders import (
    budget,
    gateway,
    kafka,
    kafka_clients,
    limits,
    nats,
    ourselves,
    rabbitmq,
    redis,
)
from peer_bench.contenders.rocketmq import controller, rocketmq, tool
from peer_bench.peers import Peer

PEERS: Final[tuple[Peer, ...]] = (
    *limits.PEERS,
    budget.PEER,
    ourselves.SYNC_FLUSH,
    ourselves.ONE_TOPIC,
    rocketmq.PEER,
    rocketmq.REPLICATED,
    rocketmq.POP,
    controller.PEER,
    tool.PEER,
    gateway.PEER,
    kafka.PEER,
    kafka_clients.JAVA,
    kafka_clients.CONFLUENT,
    kafka_clients.AIOKAFKA,
    nats.PEER,
    nats.ONE_STREAM,
    *rabbitmq.PEERS,
    redis.PEER,
)
