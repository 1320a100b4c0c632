"""A write exactly once while the only broker of its topic restarts in order, and is in no route."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

pytestmark = [pytest.mark.spark, pytest.mark.slow]

AWAY_S = 5
"""Long enough for the driver's early check, which asks a second time only where it waits."""


def test_a_repeated_write_waits_for_the_only_broker_of_its_topic_and_is_written_once(
    spark, tmp_path, monkeypatch
):
    monkeypatch.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
    cluster = LocalCluster(tmp_path / "cluster", extra_broker_args=SMALL_STORE)
    with cluster, ClusterClient(cluster.name_servers) as client, ThreadPoolExecutor(1) as pool:
        client.create_topic("orders", queue_count=2)
        given = {"endpoints": cluster.name_servers, "topic": "orders"}
        exact = {"deliveryGuarantee": "exactly-once", "writeId": "orders-of-may"}

        def write():
            rows = spark.range(300).selectExpr("cast(id AS string) AS body")
            rows.write.format("ariane").mode("append").options(**given, **exact).save()

        write()
        [broker] = cluster.brokers
        cluster.call_blocking(broker.stop)

        def come_back():
            time.sleep(AWAY_S)
            cluster.call_blocking(broker.start)

        back = pool.submit(come_back)
        write()
        back.result()

        found = spark.read.format("ariane").options(**given).load().select("body").collect()
        assert sorted(int(row.body) for row in found) == list(range(300))
