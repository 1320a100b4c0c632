"""How many connections executors have to brokers: counted, for the formula of the page."""

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from ariane_sdk import Message

WORKERS = 16
CORES = 3

ESTABLISHED = "01"
"""As ``/proc/net/tcp`` has it."""


def connections_to(address):
    """The client's port of each connection to an address of this machine, by process."""
    port = int(str(address).rpartition(":")[2])
    ports = {}
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            _, local, remote, state, *rest = line.split()
            if state == ESTABLISHED and int(remote.rpartition(":")[2], 16) == port:
                ports[f"socket:[{rest[5]}]"] = int(local.rpartition(":")[2], 16)
    found = defaultdict(set)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It has ended meanwhile.
            for handle in (process / "fd").iterdir():
                with suppress(OSError):
                    if (own := ports.get(str(handle.readlink()))) is not None:
                        found[int(process.name)].add(own)
    return found


def descendants(process):
    """All processes that a process has started, and those have."""
    children = defaultdict(set)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = path.read_text().rpartition(")")
            children[int(rest.split()[1])].add(int(name.split()[0]))
    left, found = [process], set()
    while left:
        left += children[left.pop()] - found
        found |= set(left)
    return found


@pytest.mark.parametrize(
    ("delivery", "each"),
    [("exactly-once", 1), pytest.param("at-least-once", 2, marks=pytest.mark.slow)],
)
def test_a_worker_has_one_connection_to_each_broker_and_one_more_to_write_at_least_once(
    local_cluster, new_topic, producer, delivery, each
):
    source, target = new_topic(), new_topic()
    producer.send_batch([Message(source, b"%d" % n) for n in range(40)])
    job = Path(__file__).parent / "worker_processes.py"
    words = (str(WORKERS), local_cluster.name_servers, source, target, delivery)
    with subprocess.Popen(
        [sys.executable, str(job), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout.readline() == f"{WORKERS}\n"
            workers = descendants(process.pid)
            for broker in local_cluster.brokers:
                found = connections_to(broker.address)
                assert Counter(map(len, (found[worker] for worker in workers))) == {each: WORKERS}
                assert process.pid not in found
        finally:
            process.stdin.close()
        assert process.wait(60) == 0


JOB = """
import json, sys
import ariane_spark

endpoints, source, target, folder, cores = sys.argv[1:]
spark = ariane_spark.session("connections", master=f"local[{cores}]", settings={
    "spark.local.dir": f"{folder}/local",
    "spark.sql.warehouse.dir": f"{folder}/warehouse",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
})
where = {"endpoints": endpoints}
rows = (
    spark.readStream.format("ariane")
    .options(topic=source, startingOffsets="earliest", minPartitions=cores, **where)
    .options(maxOffsetsPerTrigger="60")
    .load()
    .select("body")
)
query = (
    rows.writeStream.format("ariane")
    .options(topic=target, deliveryGuarantee="exactly-once", **where)
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(processingTime="200 milliseconds")
    .start()
)
for _ in sys.stdin:
    print(json.dumps((query.lastProgress or {}).get("batchId", -1)), flush=True)
query.stop()
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_of_a_stream_keep_their_connections_over_micro_batches(
    local_cluster, new_topic, producer, tmp_path
):
    """One that reads and one that writes for each core; and those of the driver."""
    source, target = new_topic(queue_count=3), new_topic()
    producer.send_batch([Message(source, b"%d" % n) for n in range(6000)])
    words = (local_cluster.name_servers, source, target, str(tmp_path), str(CORES))
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", JOB, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        ) as job,
    ):

        def last_batch():
            job.stdin.write("\n")
            job.stdin.flush()
            return json.loads(job.stdout.readline())

        def connections_at(batch_id):
            deadline = time.monotonic() + 200
            while last_batch() < batch_id:
                assert job.poll() is None, (tmp_path / "errors").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            family = descendants(job.pid)
            found = [connections_to(broker.address) for broker in local_cluster.brokers]
            return [{pid: each[pid] for pid in family if each.get(pid)} for each in found]

        try:
            early, late = connections_at(6), connections_at(20)
        finally:
            job.stdin.close()
        assert job.wait(60) == 0

    for was, found in zip(early, late, strict=True):
        assert {len(ports) for ports in found.values()} == {1}
        # On the driver: one plans and follows the ends, one checks the place of a write, one
        # commits.
        assert len(found) <= 2 * CORES + 3
        kept = [pid for pid, ports in was.items() if found.get(pid) == ports]
        assert len(kept) >= 2 * CORES
