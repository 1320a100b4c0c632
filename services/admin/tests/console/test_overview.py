"""The overview of a cluster that is not well."""

import pytest

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane_admin.alerts.bounds import Turns, Watched
from ariane_admin.alerts.store import AlertStore
from ariane_admin.database import SCHEMA
from ariane_servicekit import SystemClock
from ariane_servicekit.database import Database
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE


@pytest.fixture
def own_cluster(tmp_path):
    with LocalCluster(tmp_path / "own", extra_broker_args=SMALL_STORE) as running:
        yield running


@pytest.fixture
async def raise_alert(tmp_path, admin):
    opened = Database(f"sqlite:///{tmp_path}/admin/admin.db", SCHEMA, SystemClock())
    await opened.open(wait_s=0)

    def put(subject):
        watched = Watched(alert_pb.ALERT_FIGURE_LAG_SECONDS, subject)
        AlertStore(opened).take(Turns({watched: 7.0}, {}, {}), {watched.figure: 5.0}, 1)

    yield put
    opened.close()


async def test_a_cluster_with_an_alert_or_without_brokers_is_not_well(
    own_cluster, browser, raise_alert
):
    raise_alert("late-clerks")
    page = await browser.get("/")
    assert "late-clerks" in page.text
    assert "All is well" not in page.text
    [broker] = own_cluster.brokers
    broker.kill()
    own_cluster.call_blocking(broker.wait)
    page = await browser.get("/")
    assert page.status_code == 200
    assert "does not answer here at the address in routes" in page.text
    assert "late-clerks" in page.text
