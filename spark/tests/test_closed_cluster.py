"""A closed cluster: tasks log in by keys that the driver hands them, and its own is nowhere."""

import json
from pathlib import Path

import pytest

from ariane.common.v1.access_rules_pb2 import USER_KIND_SUPER
from ariane_sdk import Message
from ariane_sdk.sync import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.user_keys import UserKeys

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

JOB = Path(__file__).with_name("closed_job.py")


@pytest.fixture
def key(tmp_path, monkeypatch):
    keys = UserKeys(tmp_path)
    path = keys.file_of("etl", kind=USER_KIND_SUPER)
    for name, value in keys.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
    return path


def test_tasks_have_keys_of_their_own_and_nothing_secret_is_shown(processes, tmp_path, key):
    (tmp_path / "events").mkdir()
    secret = key.read_text().split("-----")[2].strip()
    cluster = LocalCluster(tmp_path / "cluster", brokers=2, tls=True, super_users=["root"])
    with cluster:
        ca = cluster.certificates.folder.path / "members.pem"
        with ClusterClient(cluster.name_servers, tls=ca, credentials=key) as client:
            for topic in ("orders", "once", "twice"):
                client.create_topic(topic, queue_count=2)
        with Producer(cluster.name_servers, tls=ca, credentials=key) as producer:
            producer.send_batch([Message("orders", b"%d" % n) for n in range(400)])
        given = (processes.java_options, cluster.name_servers, ca, key, tmp_path)
        told = json.loads(processes.run(str(JOB), *map(str, given)))
    assert told == {"once": 400, "twice": 400}
    assert "accessKey=*********(redacted)" in (tmp_path / "shown").read_text()
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != key]
    assert any("events" in path.parts for path in written)
    assert any("checkpoint" in path.parts for path in written)
    for path in written:
        assert secret.encode() not in path.read_bytes(), path
