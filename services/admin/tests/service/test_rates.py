"""From counters to rates."""

from ariane.broker.v1.broker_service_pb2 import BrokerStatistics, GetBrokerStateResponse
from ariane_admin.servicers.rates import RateMemory


def state(stored, *, started_s=1):
    told = GetBrokerStateResponse(statistics=BrokerStatistics(stored_message_count=stored))
    told.start_time.FromSeconds(started_s)
    return told


def test_the_second_look_tells_a_rate():
    rates = RateMemory()
    assert rates.take("a", state(100), 10.0) is None
    assert rates.take("a", state(400), 20.0).stored_messages == 30
    assert rates.of("a").stored_messages == 30


def test_a_restart_begins_anew():
    rates = RateMemory()
    rates.take("a", state(100), 10.0)
    assert rates.take("a", state(5, started_s=2), 20.0) is None
    assert rates.of("a") is None
    assert rates.take("a", state(15, started_s=2), 30.0).stored_messages == 1


def test_a_silent_broker_has_no_rate():
    rates = RateMemory()
    rates.take("a", state(100), 10.0)
    rates.take("a", state(200), 20.0)
    rates.forget_all_but(set())
    assert rates.of("a") is None
    assert rates.take("a", state(300), 30.0) is None
