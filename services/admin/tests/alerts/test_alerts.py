"""Admin watches a cluster, and says through service, console and command what it saw."""

import asyncio

import pytest

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane.admin.v1.alert_service_pb2_grpc import AlertServiceStub
from ariane_admin.alerts.store import AlertStore
from ariane_admin.alerts.watcher import Watcher
from ariane_admin.alerts.webhook import WebhookFailed
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.servicers.public_errors import ADMIN_ERROR_RULES
from ariane_sdk import ClusterClient, Message, MessageQueue, Producer, QueueReader
from ariane_servicekit import ErrorTranslator, SystemClock

LAG = alert_pb.ALERT_FIGURE_LAG_MESSAGE_COUNT
DISK = alert_pb.ALERT_FIGURE_DISK_USED_RATIO
TOPIC, GROUP = "al-work", "al-clerks"


class Webhook:
    """A webhook that is away as often as it is told to be."""

    def __init__(self):
        self.events = []
        self.failures = 0

    async def send(self, event):
        if self.failures:
            self.failures -= 1
            raise WebhookFailed("status 503")
        self.events.append((event["event"], event["figure"], event["subject"], event["value"]))


@pytest.fixture
async def backlog(cluster):
    """A group that is behind by three messages; called, it has consumed them."""
    queue = MessageQueue(TOPIC, "broker-a", 0)
    async with (
        ClusterClient(cluster.name_servers) as client,
        Producer(cluster.name_servers) as producer,
        QueueReader(cluster.name_servers) as reader,
    ):
        await client.create_topic(TOPIC, queue_count=1, exists_ok=True)
        for number in range(3):
            await producer.send(Message(TOPIC, b"%d" % number), message_queue=queue)
        await reader.store_offsets(GROUP, {queue: 0})
        yield lambda: reader.store_offsets(GROUP, {queue: 3})
        await client.delete_topic(TOPIC)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_backlog_is_an_alert_until_it_is_consumed(cluster, database, backlog):
    access = ClusterAccess(cluster.name_servers, ErrorTranslator(ADMIN_ERROR_RULES))
    await access.start()
    webhook = Webhook()

    def watcher():
        return Watcher(
            access,
            AlertStore(database),
            database,
            SystemClock(),
            thresholds={LAG: 2.0, DISK: 1.0, alert_pb.ALERT_FIGURE_DEAD_LETTER_COUNT: 1e9},
            patience_s=0,
            webhook=webhook,
        )

    def events():
        return [each for each in webhook.events if each[2] == GROUP]

    try:
        watching = watcher()
        webhook.failures = 1
        await watching.look()
        await watching.notify()
        assert events() == []
        await watching.notify()
        assert events() == [("raised", "LAG_MESSAGE_COUNT", GROUP, 3.0)]
        again = watcher()  # Admin was started again.
        await again.look()
        await again.notify()
        assert len(events()) == 1
        await backlog()
        async with asyncio.timeout(60):
            while len(events()) < 2:
                await watching.look()
                await watching.notify()
        assert events()[1][0] == "ended"
    finally:
        await access.close()


async def test_alert_rules_are_listed_and_shown(admin, browser):
    stub = AlertServiceStub(admin)
    told = await stub.ListAlertRules(alert_pb.ListAlertRulesRequest())
    bounds = {each.figure: each.threshold for each in told.rules}
    assert bounds[alert_pb.ALERT_FIGURE_LAG_SECONDS] == 900
    assert LAG not in bounds
    assert not told.webhook
    assert not (await stub.ListAlerts(alert_pb.ListAlertsRequest(figure=LAG))).alerts
    page = await browser.get("/alerts")
    assert "Replicas out of sync" in page.text
    assert "Nobody is told of alerts" in page.text


def test_alerts_are_listed_by_the_command(admin_beside, ariane, ariane_json, cluster):
    rules = {row["figure"]: row["bound"] for row in ariane_json("alert", "rules")}
    assert rules["dead_letter_count"] == 1000
    assert ariane_json("alert", "list", "--ended") == []
