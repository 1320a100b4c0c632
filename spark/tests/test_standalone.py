"""On a cluster of Spark's own: a master and two workers, each a process."""

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyspark
import pytest

from ariane_sdk import Message

# Six JVMs start for it: on two cores that others use too, that alone may take a minute.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Processes are gone before optimised code would pay."""

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"

JOB = textwrap.dedent(
    """
    import json, sys
    import ariane_spark
    from pyspark.sql import functions as f

    master, options, endpoints, source, target, folder = sys.argv[1:]
    spark = ariane_spark.session(
        "standalone",
        master=master,
        settings={
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": options,
            "spark.driver.extraJavaOptions": options,
        },
    )

    @f.udf("string", useArrow=False)
    def executor(number):
        import os
        return os.getcwd()  # A worker of Spark gives each executor a folder of its own.

    where = {"endpoints": endpoints, "minPartitions": "8"}
    rows = spark.read.format("ariane").options(topic=source, **where).load()
    executors = rows.select(executor("queueOffset").alias("place")).distinct().collect()

    stream = (
        spark.readStream.format("ariane")
        .options(topic=source, startingOffsets="earliest", **where)
        .load()
        .select("body", "tag", "messageGroup")
    )
    query = (
        stream.writeStream.foreachBatch(ariane_spark.foreach_batch_writer(endpoints, target))
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    copied = spark.read.format("ariane").options(endpoints=endpoints, topic=target).load()
    print(json.dumps({
        "rows": rows.count(),
        "executors": len(executors),
        "copied": sorted(int(row.body) for row in copied.select("body").collect()),
    }))
    spark.stop()
    """
)


class SparkProcesses:
    """Processes of a standalone cluster, each with a log that says when it is there."""

    def __init__(self, folder):
        self._folder = folder
        self._started = []
        (folder / "tmp").mkdir()
        self.java_options = f"{SHORT_LIVED} -Djava.io.tmpdir={folder / 'tmp'}"
        self._environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOG_DIR": str(folder),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": self.java_options,
        }

    def start(self, class_name, *arguments, ready):
        """Start one; what its log says when it is ready, once that is asked for."""
        path = self._folder / f"{class_name.rpartition('.')[2]}-{len(self._started)}.log"
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with path.open("wb") as log:
            # spark-class becomes the JVM, so the process is the one to end.
            process = subprocess.Popen(
                [str(program), class_name, *arguments],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )
        self._started.append(process)

        def wait():
            until = time.monotonic() + 120
            while not (found := re.search(ready, path.read_text())):
                assert process.poll() is None, path.read_text()
                assert time.monotonic() < until, path.read_text()
                time.sleep(0.05)
            return found[1]

        return wait

    def run(self, *arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self._environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self):
        for process in reversed(self._started):
            process.terminate()
        for process in self._started:
            process.wait(timeout=30)


@pytest.fixture
def processes(tmp_path):
    processes = SparkProcesses(tmp_path)
    yield processes
    processes.stop()


@pytest.fixture
def master(processes):
    master = processes.start(
        MASTER,
        *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
        ready=r"Starting Spark master at (spark://\S+)",
    )()
    workers = [
        processes.start(
            WORKER,
            master,
            *("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"),
            ready=r"(Successfully registered) with master",
        )
        for _ in range(2)
    ]
    for registered in workers:
        registered()
    return master


def test_topics_are_read_and_written_by_two_workers(
    master, processes, local_cluster, new_topic, producer, tmp_path
):
    source, target = new_topic(), new_topic()
    producer.send_batch(
        [Message(source, b"%d" % n, tag="t", message_group=f"g{n % 9}") for n in range(2000)]
    )

    told = json.loads(
        processes.run(
            "-c",
            JOB,
            master,
            processes.java_options,
            local_cluster.name_servers,
            source,
            target,
            str(tmp_path / "check"),
        )
    )

    assert told == {"rows": 2000, "executors": 2, "copied": list(range(2000))}
