"""Spark's session and a real cluster, for the tests of the connector and of the pipelines."""

import itertools
import os
from contextlib import ExitStack

import pytest

from ariane.broker.v1.topic_service_pb2 import UpdateTopicRequest
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane_sdk.sync import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster
from ariane_spark import session
from ariane_testkit.small_store import SMALL_STORE
from ariane_wire import blocking


@pytest.fixture(scope="session")
def spark(local_cluster, tmp_path_factory):  # noqa: ARG001 - it ends before the cluster.
    """One JVM for the whole run: two tasks at a time, each tried up to four times.

    Brokers that end before it wait ten seconds for the streams of its workers.
    """
    folder = tmp_path_factory.mktemp("spark")
    (folder / "tmp").mkdir()
    spark = session(
        "tests",
        master="local[2,4]",
        settings={
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            # Tests are over before optimised code would pay.
            "spark.driver.extraJavaOptions": (
                "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
                f" -Djava.io.tmpdir={folder / 'tmp'}"  # Spark leaves folders there.
            ),
            # Not UTC, so that a time zone that slips in anywhere is seen.
            "spark.sql.session.timeZone": "America/New_York",
        },
    )
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def local_cluster(tmp_path_factory):
    """A name server and two brokers, as processes."""
    folder = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        # Its brokers are known as soon as they are there; nobody needs to wait for others. Only
        # while it starts: other tests of this run start name servers too.
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
            cluster = stack.enter_context(
                LocalCluster(folder, brokers=2, extra_broker_args=SMALL_STORE)
            )
        yield cluster


@pytest.fixture(scope="session")
def client(local_cluster):
    with ClusterClient(local_cluster.name_servers) as client:
        yield client


@pytest.fixture(scope="session")
def producer(local_cluster):
    with Producer(local_cluster.name_servers, group="spark-tests") as producer:
        yield producer


_topic_numbers = itertools.count()


@pytest.fixture
def new_topic(client):
    """Makes topics, two queues on each of two brokers unless told otherwise."""

    def make(queue_count: int = 2) -> str:
        topic = f"topic-{os.getpid()}-{next(_topic_numbers)}"
        client.create_topic(topic, queue_count=queue_count)
        return topic

    return make


@pytest.fixture
def widen(local_cluster):
    """Gives a topic more queues on each broker."""

    def widen(topic: str, queue_count: int) -> None:
        wider = UpdateTopicRequest(
            topic=topic, read_queue_count=queue_count, write_queue_count=queue_count
        )
        for broker in local_cluster.brokers:
            with blocking.insecure_channel(broker.address) as channel:
                TopicServiceStub(channel).UpdateTopic(wider, timeout=60)

    return widen


@pytest.fixture
def topic(new_topic):
    return new_topic()


@pytest.fixture
def reading(spark, local_cluster):
    """A batch reader with the options that every read needs."""

    def read(topic: str, /, **options: str):
        return (
            spark.read.format("ariane")
            .option("endpoints", local_cluster.name_servers)
            .option("topic", topic)
            .options(**options)
        )

    return read


@pytest.fixture
def streaming(spark, local_cluster):
    """The streaming twin of `reading`."""

    def read(topic: str, /, **options: str):
        return (
            spark.readStream.format("ariane")
            .option("endpoints", local_cluster.name_servers)
            .option("topic", topic)
            .options(**options)
        )

    return read
