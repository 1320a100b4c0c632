"""Workers that lack the distribution, until a session brings it."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from ariane_sdk import Message
from pyspark_ariane import DefaultSource
from pyspark_ariane.shipping import ship

JOB = """
import json, sys
from pyspark.sql import SparkSession
from pyspark_ariane.shipping import ship

endpoints, topic, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2,4]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    .config("spark.local.dir", f"{folder}/local")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .getOrCreate()
)
where = {"endpoints": endpoints, "topic": topic}
rows = lambda: spark.read.format("ariane").options(**where).load()
told = []
try:
    told.append(rows().count())
except Exception as error:
    told.append("DATA_SOURCE_NOT_FOUND" in str(error))
ship(spark)
told.append(rows().count())
exactly = {"deliveryGuarantee": "exactly-once", "writeId": topic}
rows().select("body").write.format("ariane").mode("append").options(**where, **exactly).save()
told.append(rows().count())
spark.stop()
print(json.dumps(told))
"""


CLIENT = """
import json, sys
from pyspark.sql import SparkSession

remote, endpoints, topic = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
where = {"endpoints": endpoints, "topic": topic}
rows = lambda: spark.read.format("ariane").options(**where).load()
exactly = {"deliveryGuarantee": "exactly-once", "writeId": topic}
told = [rows().count()]
rows().select("body").write.format("ariane").mode("append").options(**where, **exactly).save()
told.append(rows().count())
print(json.dumps(told))
"""


@pytest.fixture
def bare(tmp_path):
    """A Python with all that ours depends on, and nothing of ours."""
    # Without `site`, it follows no .pth file: ours are installed by these, others are not.
    installed = Path(pyspark.__file__).parents[1]
    bare = tmp_path / "python"
    bare.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{installed}" exec {sys.executable} -S "$@"\n'
    )
    bare.chmod(0o755)
    lacking = subprocess.run([str(bare), "-c", "import pyspark, ariane_spark"], check=False)
    if lacking.returncode == 0:
        pytest.skip("installed without .pth files: nobody can be made to lack it")
    return bare


@pytest.fixture
def connect_server(processes):
    """The address of a server of Spark Connect, whose Python has ours."""
    # Spark gives this server the memory of its daemons.
    processes.environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "1g"}
    settings = ("spark.connect.grpc.binding.port=0", "spark.ui.enabled=false")
    port = processes.start(
        "org.apache.spark.deploy.SparkSubmit",
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2,4]", "--driver-java-options", processes.java_options),
        *(word for each in settings for word in ("--conf", each)),
        "spark-internal",
        ready=r"Spark Connect server started at: \S+:(\d+)",
    )()
    return f"sc://127.0.0.1:{port}"


def test_an_archive_has_all_of_ours_and_says_of_which_versions():
    shipped = []

    def add(path, *, pyfile):
        with zipfile.ZipFile(path) as archive:
            shipped.append((Path(path).name, pyfile, set(archive.namelist())))

    registered = []
    session = SimpleNamespace(
        addArtifacts=add, dataSource=SimpleNamespace(register=registered.append)
    )
    for _ in range(2):
        ship(session)
    assert registered == [DefaultSource] * 2
    assert shipped[0] == shipped[1]
    _, pyfile, names = shipped[0]
    assert pyfile
    assert {name.partition("/")[0] for name in names if "dist-info" not in name} == {
        *("ariane", "ariane_ordering", "ariane_record", "ariane_sdk", "ariane_spark"),
        *("ariane_sql92", "ariane_wire", "pyspark_ariane"),
    }
    assert {"pyspark_ariane/__init__.py", "ariane_spark/py.typed"} < names
    assert len([name for name in names if name.endswith(".dist-info/METADATA")]) == 7


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_workers_without_the_distribution_have_it_once_it_is_shipped(
    local_cluster, topic, producer, bare, tmp_path
):
    producer.send_batch([Message(topic, b"%d" % n) for n in range(20)])
    done = subprocess.run(
        [sys.executable, "-c", JOB, local_cluster.name_servers, topic, str(tmp_path)],
        env={"PYSPARK_PYTHON": str(bare), "PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [True, 20, 40]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_client_of_spark_connect_needs_nothing_of_ours(
    connect_server, local_cluster, topic, producer, bare, tmp_path
):
    producer.send_batch([Message(topic, b"%d" % n) for n in range(20)])
    done = subprocess.run(
        [str(bare), "-c", CLIENT, connect_server, local_cluster.name_servers, topic],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [20, 40]
