"""What the doctor says of gateways."""

from datetime import UTC, datetime, timedelta

import pytest

from ariane.broker.v1.broker_service_pb2 import GetBrokerStateResponse
from ariane.namesrv.v1.route_pb2 import BrokerIdentity
from ariane_admin.doctor.cluster_facts import BrokerFacts, ClusterFacts
from ariane_admin.doctor.diagnosis import diagnose
from ariane_admin.doctor.findings import Severity
from ariane_admin.doctor.gateway_facts import GatewayFacts

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BROKERS = [
    BrokerFacts(
        BrokerIdentity(broker_name=name, address=f"{name}:10911"),
        state=GetBrokerStateResponse(
            identity=BrokerIdentity(broker_name=name, address=f"{name}:10911"), writable=True
        ),
    )
    for name in ("a", "b")
]


def gateway(*, error="", attached_to=("a", "b"), version="0.1.0", **facts):
    return GatewayFacts("gateway@h@1", version, attached_to, error, facts)


def found(*gateways):
    return diagnose(ClusterFacts([], BROKERS, gateways=gateways))


def test_nothing_is_said_of_a_gateway_that_serves():
    later = (NOW + timedelta(days=90)).isoformat()
    assert not found(gateway(stage="serving", current_time=NOW.isoformat(), certificate_ends=later))


@pytest.mark.parametrize(
    ("one", "severity", "words"),
    [
        (gateway(error="silent"), Severity.ERROR, "does not answer: silent"),
        (gateway(stage="draining", attached_to=("a",)), Severity.NOTE, "is about to stop"),
        (gateway(stage="serving", attached_to=("a",)), Severity.WARNING, "not attached to b"),
    ],
)
def test_a_gateway_that_is_silent_stops_or_is_cut_off_is_one_finding(one, severity, words):
    [finding] = found(one)
    assert (finding.severity, finding.subject) == (severity, "gateway gateway@h@1")
    assert words in finding.finding


def test_both_certificates_of_a_gateway_are_watched():
    facts = {
        name: (NOW + timedelta(days=days)).isoformat()
        for name, days in (
            ("current_time", 0),
            ("certificate_ends", 20),
            ("front_certificate_ends", 3),
        )
    }
    first, second = found(gateway(address="g:8081", **facts))
    assert first.subject == second.subject == "gateway gateway@h@1 at g:8081"
    assert (first.severity, first.finding) == (
        Severity.ERROR,
        "its front certificate ends in 3 days",
    )
    assert (second.severity, second.finding) == (
        Severity.WARNING,
        "its certificate ends in 20 days",
    )
    assert not found(gateway(current_time="never", certificate_ends="soon"))


def test_a_gateway_of_another_version_is_told_of():
    [finding] = found(gateway(), gateway(version="0.2.0"))
    assert "versions differ" in finding.finding
