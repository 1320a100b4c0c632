from __future__ import annotations

from collections import defaultdict
from itertools import count

import pytest

from ariane_namesrv import RouteTable
from ariane_namesrv.registration import BrokerKey, Permission, Registration, TopicLayout
from ariane_testkit.virtual_clock import VirtualClock

READ_WRITE = Permission.READ | Permission.WRITE
PORTS = defaultdict(count(10_911).__next__)
"""One for each broker."""


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def table(clock):
    return RouteTable(clock)


@pytest.fixture
def registration():
    """Make a registration from what differs from an ordinary broker."""

    def registration(
        name="broker-a",
        topics=("orders",),
        *,
        cluster="c1",
        broker_id=0,
        port=None,
        queue_count=4,
        permission=READ_WRITE,
        incarnation="first",
        topics_version=1,
        silence_s_max=120.0,
        **rest,
    ):
        if port is None:
            port = PORTS[cluster, name]
        layout = TopicLayout(queue_count, queue_count, permission)
        return Registration(
            key=BrokerKey(cluster, name, broker_id),
            address=f"127.0.0.1:{port}",
            incarnation=incarnation,
            topics=dict.fromkeys(topics, layout),
            topics_version=topics_version,
            silence_s_max=silence_s_max,
            **rest,
        )

    return registration
