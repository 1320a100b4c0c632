"""The page about clusters is followed as it stands, on a cluster of Spark's own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ariane_sdk import Message
from tools import dist
from tools.papers import Paper
from tools.workspace import ROOT

# An environment is made with the newest of everything, and packed.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

JOB = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

spark = SparkSession.builder.appName("orders").getOrCreate()
where = {{"endpoints": {endpoints!r}, "topic": {topic!r}}}
orders = spark.read.format("ariane").options(**where).load()

@f.udf("string", useArrow=False)
def place(number):
    import ariane_spark
    return ariane_spark.__file__

places = {{row.place for row in orders.select(place("queueOffset").alias("place")).collect()}}
print(orders.count(), *places)
spark.stop()
"""


def test_workers_have_what_an_archive_or_files_bring_them(
    master, processes, local_cluster, topic, producer, tmp_path
):
    producer.send_batch([Message(topic, b"%d" % n) for n in range(100)])
    job = JOB.format(endpoints=local_cluster.name_servers, topic=topic)
    (tmp_path / "job.py").write_text(job)
    dist.build(tmp_path / "dist")
    _, pack, submit, files = Paper(ROOT, "docs/spark-cluster.md").blocks("sh")
    home = Path(pyspark.__file__).parent
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYSPARK", "ARIANE", "VIRTUAL_ENV"))
    } | {
        "PATH": os.pathsep.join((str(home / "bin"), os.environ["PATH"])),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
    }

    def run(commands):
        host = f"{master} --executor-memory 512m"
        commands = commands.replace("spark://host:7077", host)
        done = subprocess.run(
            ["bash", "-euc", commands.replace("python3 -m venv", f"{sys.executable} -m venv")],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout.strip().splitlines()[-1].split() if "job.py" in commands else None

    run(pack)
    count, *places = run(submit)
    assert count == "100"
    assert all("/env/lib/" in place and str(tmp_path / "work") in place for place in places)

    # Machines that have what ours depends on, and nothing of ours.
    run("env/bin/pip freeze | sed -n 's/[ =].*//; /^ariane/p' | xargs env/bin/pip uninstall --yes")
    environment["PYSPARK_PYTHON"] = str(tmp_path / "env" / "bin" / "python")
    count, *places = run(files)
    assert count == "100"
    assert all("ariane_spark-" in place and ".zip/" in place for place in places)
    shutil.rmtree(tmp_path / "env")
