"""What is asked again, how often, and after which waits."""

import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from ariane_sdk.errors import NameServersUnreachable, RouteNotFound, ServiceUnavailable
from ariane_sdk.net.status import ERROR_DOMAIN, error_from_status
from ariane_spark.calls.batch_transactions import WRITE_POLICY
from ariane_spark.calls.repetition import STRANGE_REPEATS_MAX, WARM_UP_WAITS_MAX, Repetition
from ariane_spark.options.options import RequestPolicy


class PeerUnreachable(ServiceUnavailable):
    """As a home answers whose other brokers are away."""

    reason = "PEER_UNREACHABLE"


@pytest.fixture
def waits():
    return []


@pytest.fixture
def repetition(waits):
    return Repetition(RequestPolicy(retries_max=2), sleep=waits.append)


def failing(count, error):
    errors = [error] * count

    def question():
        if errors:
            raise errors.pop()
        return "answer"

    return question


def test_what_may_pass_is_asked_again_and_not_for_ever(repetition, waits):
    away = ServiceUnavailable("away", retriable=True)
    assert repetition.ask(failing(2, away)) == "answer"
    assert waits == [0.1, 0.2]
    with pytest.raises(ServiceUnavailable):
        repetition.ask(failing(3, away))


def test_a_home_that_waits_for_another_broker_is_waited_for_and_says_so_at_once(waits, caplog):
    """Until name servers drop the other one, 120 s after it died."""
    repetition = Repetition(WRITE_POLICY, sleep=waits.append)
    for error_class, least_s in ((PeerUnreachable, 120), (ServiceUnavailable, 50)):
        caplog.clear()
        waits.clear()
        away = error_class("broker b does not answer", retriable=True)
        with pytest.raises(ServiceUnavailable):
            repetition.ask(failing(100, away), asker="query/orders")
        assert sum(waits) > least_s
        [record] = caplog.records
        assert f"query/orders waits up to about {sum(waits):.0f} s: broker b" in record.message


def test_a_name_server_that_has_just_started_is_waited_for(repetition, waits):
    """Until it has heard of all brokers, in 45 s; two repetitions would be over much sooner."""
    early = not_found(warming_up="true")

    assert repetition.ask(failing(60, early)) == "answer"
    assert sum(waits) == 60
    with pytest.raises(RouteNotFound):
        repetition.ask(failing(WARM_UP_WAITS_MAX + 3, early))


def not_found(**metadata):
    """The error as it comes from a name server."""
    status = Status(message="no live broker has the topic")
    status.details.add().Pack(
        ErrorInfo(domain=ERROR_DOMAIN, reason="ROUTE_NOT_FOUND", metadata=metadata)
    )
    return error_from_status(status, peer="name server a")


def test_a_write_waits_a_minute_for_a_topic_whose_broker_is_away(waits):
    away = not_found(away_brokers="broker-a")
    patient = Repetition(WRITE_POLICY, sleep=waits.append)

    assert patient.ask(failing(16, away)) == "answer"
    assert 55 < sum(waits) < 70
    with pytest.raises(RouteNotFound):
        patient.ask(failing(100, away))
    waits.clear()
    with pytest.raises(RouteNotFound):
        patient.ask(failing(1, not_found()))
    with pytest.raises(RouteNotFound):  # A stream reads other topics meanwhile.
        patient.ask(failing(1, away), awaits_topics=False)
    assert waits == []


def test_a_topic_that_there_is_not_is_asked_for_once(repetition, waits):
    with pytest.raises(RouteNotFound):
        repetition.ask(failing(1, not_found()))
    assert waits == []


def test_name_servers_that_nobody_has_ever_heard_of_are_given_up_in_seconds(waits):
    patient = Repetition(RequestPolicy(retries_max=1000), sleep=waits.append)
    nobody = NameServersUnreachable("nobody", retriable=True)

    assert patient.ask(failing(STRANGE_REPEATS_MAX, nobody)) == "answer"
    with pytest.raises(NameServersUnreachable):
        patient.ask(failing(STRANGE_REPEATS_MAX + 1, nobody))

    assert sum(waits) < 7
