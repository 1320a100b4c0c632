"""The least stack, compose.dev.yaml, really runs: a message goes in and comes out from outside."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from stack import Stack, missing

from ariane_sdk.errors import ArianeError
from ariane_sdk.sync import ClusterClient, Message, Producer, ReceiveConsumer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NAME_SERVERS = ["127.0.0.1:9876"]
PATIENCE_S = 180.0


@pytest.fixture
def stack() -> Iterator[Stack]:
    if lacks := missing():
        pytest.skip(f"this machine has not {lacks}")
    with Stack("compose.dev.yaml", gateway="10.78.0.1") as stack:
        stack.up("namesrv-1", "broker-a")
        yield stack


def brokers() -> list[str]:
    try:
        with ClusterClient(NAME_SERVERS) as cluster:
            return [each.broker_name for each in cluster.list_brokers()]
    except ArianeError:
        return []


def test_a_message_goes_in_and_comes_out_from_outside(stack):
    end = time.monotonic() + PATIENCE_S
    while not brokers():
        assert time.monotonic() < end, "the broker has not registered"
        time.sleep(0.2)
    with ClusterClient(NAME_SERVERS) as cluster, Producer(NAME_SERVERS) as producer:
        cluster.create_topic("orders", queue_count=1)
        sent = producer.send(Message("orders", b"one espresso"))
    subscriptions = {"orders": "*"}
    with ReceiveConsumer(NAME_SERVERS, group="bar", subscriptions=subscriptions) as consumer:
        [received] = consumer.receive_batch(1, timeout_s=PATIENCE_S)
        assert (received.body, received.unique_id) == (b"one espresso", sent.unique_id)
        consumer.ack(received)
