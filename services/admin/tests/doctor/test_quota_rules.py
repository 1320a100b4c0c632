"""Quotas that are used up, for the doctor and the console, without a cluster."""

from google.protobuf.duration_pb2 import Duration

from ariane.broker.v1.broker_service_pb2 import GetBrokerStateResponse
from ariane.common.v1 import quota_pb2 as pb
from ariane.namesrv.v1.route_pb2 import BrokerIdentity
from ariane_admin.console.pages.operations import quota_blocks
from ariane_admin.doctor.cluster_facts import BrokerFacts, ClusterFacts
from ariane_admin.doctor.cluster_rules import quotas_used_up
from ariane_admin.doctor.diagnosis import RULES
from ariane_admin.doctor.findings import Severity


def use(figure, subject, name, limit, refused):
    return pb.QuotaUse(
        quota=pb.Quota(figure=figure, subject=subject, name=name, limit=limit),
        refused_count=refused,
        waited_duration=Duration(seconds=3, nanos=250_000_000),
        age_duration=Duration(seconds=5),
    )


USES = [
    use("QUOTA_FIGURE_CALLS", "QUOTA_SUBJECT_USER", "anna", 10, 12),
    use("QUOTA_FIGURE_SENT_BYTES", "QUOTA_SUBJECT_TOPIC", "orders", 1000, 0),
    use("QUOTA_FIGURE_CONNECTIONS", "QUOTA_SUBJECT_ADDRESS", "10.0.0.7", 5, 2),
]


def test_names_at_a_quota_are_reported():
    identity = BrokerIdentity(broker_name="b-0", address="b:10911")
    brokers = [
        BrokerFacts(identity, state=GetBrokerStateResponse(identity=identity, quota_uses=USES)),
        BrokerFacts(BrokerIdentity(broker_name="b-1"), error="is away"),
    ]
    refused, slowed, address = quotas_used_up(ClusterFacts([], brokers))
    assert (refused.severity, refused.subject) == (Severity.WARNING, "user anna")
    assert "calls, 10 a second, at broker b-0" in refused.finding
    assert "refused 12 times" in refused.finding
    assert "3.2 s" in refused.finding
    assert (slowed.severity, slowed.subject) == (Severity.NOTE, "topic orders")
    assert "connections, 5, at" in address.finding
    assert quotas_used_up in RULES


def test_names_below_a_quota_are_not_reported():
    identity = BrokerIdentity(broker_name="b-0", address="b:10911")
    quiet = use("QUOTA_FIGURE_CALLS", "QUOTA_SUBJECT_USER", "anna", 10, 12)
    quiet.ClearField("age_duration")
    state = GetBrokerStateResponse(identity=identity, quota_uses=[quiet])
    assert list(quotas_used_up(ClusterFacts([], [BrokerFacts(identity, state=state)]))) == []


def test_the_page_of_a_broker_shows_them():
    [table] = quota_blocks("b-0", USES)
    shown = dict(zip(table.columns, (cell.text for cell in table.rows[0]), strict=True))
    assert shown["Of what"] == "calls"
    assert (shown["Whose"], shown["Name"], shown["Broker"]) == ("user", "anna", "b-0")
    assert (shown["Limit"], shown["Refused"], shown["Now"]) == ("10", "12", "slowed")
    assert quota_blocks("b-0", []) == ()
