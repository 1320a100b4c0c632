"""The watcher at two brokers, one of which falls silent."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane.broker.v1.broker_service_pb2 import GetBrokerStateResponse
from ariane_admin.alerts.store import AlertStore
from ariane_admin.alerts.watcher import Watcher
from ariane_sdk import LiveBroker, MessageQueue, QueueLag
from ariane_sdk.errors import CallError, ServiceUnavailable

LAG = alert_pb.ALERT_FIGURE_LAG_MESSAGE_COUNT
GROUP = "clerks"


class Brokers:
    """Two brokers, whose groups are behind as a test says; None does not answer."""

    def __init__(self):
        self.lags = {"broker-a": 6, "broker-b": 6}
        self.doors = self.client = self

    async def primaries(self):
        now = datetime.now(UTC)
        return [LiveBroker("main", name, 0, name, "", now, 1) for name in self.lags]

    def brokers(self, address):
        async def state(request, **_):
            self._answered(address)
            return GetBrokerStateResponse()

        return SimpleNamespace(GetBrokerState=state)

    def replica_sets(self, address):
        async def missing(request, **_):
            error = CallError("no replicas")
            error.reason = "FEATURE_NOT_AVAILABLE"
            raise error

        return SimpleNamespace(GetReplicaSet=missing)

    async def consumer_lag(self, *, broker_names):
        [name] = broker_names
        count = self._answered(name)
        return [QueueLag(GROUP, MessageQueue("work", name, 0), 0, count, count, None)]

    def _answered(self, name):
        if self.lags[name] is None:
            raise ServiceUnavailable(f"{name} does not answer")
        return self.lags[name]


class Clock:
    """Goes on as a test says."""

    s = 0.0

    def monotonic(self):
        return self.s

    def now_ms(self):
        return round(self.s * 1000)


@pytest.fixture
def brokers():
    return Brokers()


@pytest.fixture
def look_at(brokers, database):
    """Look when so many seconds have passed: alerts that have not ended."""
    clock, store = Clock(), AlertStore(database)
    watcher = Watcher(
        brokers, store, database, clock, thresholds={LAG: 10.0}, patience_s=60, webhook=None
    )

    async def look(at_s):
        clock.s = at_s
        await watcher.look()
        return [one.subject for one in store.standing()]

    return look


pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


async def test_the_lag_that_is_left_of_a_silent_broker_ends_no_alert(brokers, look_at):
    assert await look_at(0) == []
    assert await look_at(60) == [GROUP]
    brokers.lags["broker-b"] = None
    assert await look_at(90) == [GROUP]
    brokers.lags["broker-b"] = 1
    assert await look_at(120) == []


async def test_a_silent_broker_does_not_start_the_patience_anew(brokers, look_at):
    assert await look_at(0) == []
    brokers.lags["broker-b"] = None
    assert await look_at(30) == []
    brokers.lags["broker-b"] = 6
    assert await look_at(60) == [GROUP]


async def test_a_part_that_is_too_much_by_itself_is_an_alert(brokers, look_at):
    brokers.lags |= {"broker-a": 11, "broker-b": None}
    assert await look_at(0) == []
    assert await look_at(60) == [GROUP]
