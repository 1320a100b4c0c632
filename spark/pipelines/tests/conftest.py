"""A group that gives messages up, and what sends them back."""

import threading
from collections import Counter

import pytest

from ariane_pipelines import RedrivePlan
from ariane_sdk import Message, PushSettings
from ariane_sdk.errors import MessagesFailed
from ariane_sdk.sync import PushConsumer

BRISK = PushSettings(rebalance_gap_s_min=0.05, handover_s=0.05, call_timeout_s=10.0)
GROUPS = ("g0", "g1", "g2", "g3")


@pytest.fixture
def give_up(local_cluster, producer):
    """Has a group give messages up: each is rejected for the reason that its tag names."""

    def give_up(group, topic, numbers, groups=GROUPS):
        left = set(numbers)
        all_seen = threading.Event()

        def reject(messages):
            left.difference_update(int(message.body) for message in messages)
            if not left:
                all_seen.set()
            (message,) = messages
            raise MessagesFailed(messages, f"no {message.tag}", rejected=True)

        producer.send_batch(
            [
                Message(
                    topic,
                    b"%d" % n,
                    tag="currency" if n % 3 else "amount",
                    keys=(f"key-{n}",),
                    message_group=groups[n % len(groups)],
                    properties={"number": str(n)},
                )
                for n in numbers
            ]
        )
        with PushConsumer(
            local_cluster.name_servers,
            group=group,
            subscriptions={topic: "*"},
            listener=reject,
            start="earliest",
            batch_size=1,
            settings=BRISK,
        ):
            # What the listener has is finished, and so sent back, before the consumer stops.
            assert all_seen.wait(60)

    return give_up


@pytest.fixture
def plan(local_cluster, tmp_path):
    def plan(group, **more):
        state = str(tmp_path / "state")
        return RedrivePlan(endpoints=local_cluster.name_servers, group=group, state=state, **more)

    return plan


@pytest.fixture
def bodies_of(reading):
    """The bodies in a topic, counted."""

    def bodies_of(topic):
        return Counter(bytes(row.body) for row in reading(topic, columns="body").load().collect())

    return bodies_of
