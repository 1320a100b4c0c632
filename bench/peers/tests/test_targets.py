"""Floors and goals as they were agreed on: nobody moves one by the way."""

import pytest
from peer_bench.registry import PEERS

SENT = {
    ("rocketmq", "batches"): (1.0, 2.0),
    ("kafka", "batches"): (1.0, 2.0),
    ("confluent", "batches"): (0.8, 1.5),
    ("aiokafka", "batches"): (2.0, 4.0),
    ("rocketmq", "columns"): (0.8, 1.5),
    ("rocketmq", "sustained-batches"): (1.0, 1.5),
    ("rocketmq", "sustained-batches-128"): (0.8, 1.0),
    ("rocketmq-replica", "batches"): (1.0, 2.0),
    ("rocketmq-replica", "singles-64"): (1.0, 2.0),
    ("rocketmq-tool", "sustained-batches"): (1.0, 1.5),
    ("rocketmq-tool", "sustained-batches-128"): (0.8, 1.0),
    ("rocketmq-tool", "sustained-columns"): (0.8, 1.5),
    ("kafka", "sustained-batches"): (1.0, 2.0),
    ("kafka", "sustained-columns"): (1.0, 2.0),
    ("kafka", "columns"): (1.0, 2.0),
    ("rocketmq", "singles-64"): (1.5, 2.5),
    ("aiokafka", "singles-64"): (1.0, 1.6),
    ("nats", "singles-64"): (1.5, 2.5),
    ("rocketmq", "singles-1024"): (2.5, 4.0),
    ("rocketmq", "singles-1"): (0.5, 1.0),
    ("aiokafka", "singles-1"): (0.5, 1.0),
    ("echo", "batches"): (0.6, 0.85),
    ("echo", "columns-256k"): (0.6, 0.85),
    ("echo", "columns-1m"): (0.6, 0.85),
    ("sync-flush", "singles-64"): (0.5, 0.8),
    ("one-topic", "topics-batches"): (0.84, 0.97),
    ("one-topic", "topics-singles"): (0.84, 0.97),
    ("rocketmq", "latency"): (0.5, 1.0),
    ("kafka-java", "latency"): (0.5, 1.0),
    ("nats", "batches"): (1.5, 3.0),
    ("aio-pika", "batches"): (1.5, 3.0),
    ("pika", "batches"): (1.5, 3.0),
    ("redis", "batches"): (1.5, 3.0),
    ("rocketmq-controller", "failover"): (None, 2.0),
    ("rocketmq-proxy", "gateway-1"): (0.5, 1.0),
    ("rocketmq-proxy", "gateway-64"): (0.5, 1.0),
    # 3 us are allowed and 1 us is aimed at.
    ("budget", "broker-cpu"): (1.0, 3.0),
}
CONSUMED = {
    ("rocketmq", "batches", "each"): (1.5, 2.5),
    ("rocketmq-pop", "receive", "receive"): (1.5, 3.0),
    ("rocketmq-proxy", "gateway-64", "receive"): (0.5, 1.0),
    ("aiokafka", "batches", "each"): (1.3, 2.0),
    ("kafka", "batches", "chunks"): (0.6, 1.0),
    ("kafka", "columns", "chunks"): (0.6, 1.0),
    ("nats", "batches", "listener"): (1.5, 3.0),
    ("aio-pika", "batches", "listener"): (1.5, 3.0),
    ("pika", "batches", "listener"): (1.5, 3.0),
    ("redis", "batches", "listener"): (1.5, 3.0),
}
PARTS = {(peer.key, work): part for peer in PEERS for work, part in peer.parts.items()}


@pytest.mark.parametrize(("key", "target"), SENT.items())
def test_a_send_has_its_floor_and_its_goal(key, target):
    assert tuple(PARTS[key].produced) == target


@pytest.mark.parametrize(("key", "target"), CONSUMED.items())
def test_a_way_of_consuming_has_its_floor_and_its_goal(key, target):
    assert tuple(PARTS[key[:2]].consumed[key[2]]) == target
