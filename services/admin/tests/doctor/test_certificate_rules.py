"""Certificates that end soon, without a cluster."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from ariane.common.v1.process_service_pb2 import ProcessState
from ariane.namesrv.v1.route_pb2 import BrokerIdentity
from ariane_admin.doctor.certificate_rules import certificates_that_end
from ariane_admin.doctor.cluster_facts import (
    BrokerFacts,
    ClusterFacts,
    NameServerFacts,
    ProcessFacts,
)
from ariane_admin.doctor.diagnosis import RULES
from ariane_admin.doctor.findings import Severity


def process(days):
    state = ProcessState(current_time=Timestamp(seconds=1_000_000))
    if days is not None:
        state.certificate_expire_time.seconds = 1_000_000 + int(days * 86_400)
    return ProcessFacts(state, 0.0, 0.0)


@pytest.mark.parametrize(
    ("days", "severity"),
    [
        (None, None),
        (31, None),
        (29, Severity.WARNING),
        (6, Severity.ERROR),
        (-1, Severity.ERROR),
    ],
)
def test_a_certificate_is_reported_that_ends_within_thirty_days(days, severity):
    facts = ClusterFacts(
        [NameServerFacts("n:9876", process=process(days))],
        [BrokerFacts(BrokerIdentity(broker_name="b-0", address="b:10911"), process=process(days))],
    )
    found = list(certificates_that_end(facts))
    assert [each.severity for each in found] == ([severity] * 2 if severity else [])
    if severity:
        assert [each.subject for each in found] == ["name server n:9876", "broker b-0 at b:10911"]
        assert all("ariane tls renew" in each.advice for each in found)
    assert certificates_that_end in RULES
