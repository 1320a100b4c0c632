"""``ariane sink``: what exactly-once writes leave on brokers, moved and deleted."""

import json
import zlib

import grpc
import pytest

from ariane.broker.v1.sink_service_pb2 import (
    NoteSinkHomeRequest,
    PrepareBatchRequest,
    SinkHome,
)
from ariane.broker.v1.sink_service_pb2_grpc import SinkServiceStub
from ariane.broker.v1.transaction_service_pb2 import (
    BatchAttempt,
    CommitBatchRequest,
    StageBatchRecordsRequest,
)
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane_admin.terminal.exits import ExitStatus
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_sdk.sync import ClusterClient


@pytest.fixture(scope="module")
def copies(cluster):
    """A topic on both brokers."""
    with ClusterClient(cluster.name_servers) as client:
        client.create_topic("sink-copies", queue_count=1)
    return "sink-copies"


@pytest.fixture
def sink(cluster, copies, request):
    """A sink on broker-a that has committed batch 3, of no rows; every broker knows its home."""
    name = f"query/{request.node.name}"
    home = SinkHome(broker_name="broker-a")
    for number, broker in enumerate(cluster.brokers):
        with grpc.insecure_channel(str(broker.address)) as channel:
            note = NoteSinkHomeRequest(query_id=name, topic=copies, home=home)
            SinkServiceStub(channel).NoteSinkHome(note)
            if number == 0:
                commit = CommitBatchRequest(query_id=name, batch_id=3)
                TransactionServiceStub(channel).CommitBatch(commit)
    return name


def row_of(rows, name):
    [row] = [row for row in rows if row["name"] == name]
    return row


def test_a_sink_is_listed_moved_and_deleted(sink, copies, ariane, ariane_json):
    row = row_of(ariane_json("sink", "list"), sink)
    assert (row["topic"], row["home"], row["state"]) == (copies, "broker-a", "ok")
    assert (row["batch"], row["rows"], row["staged_rows"]) == (3, 0, 0)
    assert row["committed"]
    assert row["brokers"] == ["broker-a", "broker-b"]
    assert sink in ariane("sink", "list", "--topic", copies)
    ariane("topic", "create", "others", "--exists-ok")
    assert sink not in ariane("sink", "list", "--topic", "others")

    told = json.loads(ariane("sink", "move", sink, "broker-b", "--yes", "-o", "json"))

    assert told == {
        "sink": sink,
        "home": "broker-b",
        "home_before": "broker-a",
        "home_before_answered": True,
        "batch": 3,
    }
    row = row_of(ariane_json("sink", "list"), sink)
    assert (row["home"], row["batch"]) == ("broker-b", 3)
    back = ariane("sink", "move", sink, "broker-a", "--yes", "--home-is-gone")
    assert back == f"broker-a now decides for sink {sink}.\n"

    told = ariane_json("sink", "delete", sink, "--dry-run")
    assert (told["name"], told["staged_rows"], told["dry_run"]) == (sink, 0, True)
    assert row_of(ariane_json("sink", "list"), sink)["batch"] == 3
    gone = ariane("sink", "delete", sink, "--yes")
    assert gone == f"Deleted sink {sink} from 2 brokers; 0 staged rows dropped.\n"
    assert not [row for row in ariane_json("sink", "list") if row["name"] == sink]


def test_a_move_and_a_deletion_leave_their_entries(admin_beside, sink, ariane, ariane_json):
    ariane("sink", "move", sink, "broker-b", "--yes")
    ariane("sink", "delete", sink, "--yes")
    ariane("sink", "delete", "nobody", "--yes", status=ExitStatus.NOT_FOUND)
    rows = ariane_json("audit", "list")
    told = [(row["method"], row["name"], row["outcome"]) for row in reversed(rows)]
    assert told == [
        ("MoveSink", sink, "done"),
        ("DeleteSink", sink, "done"),
        ("DeleteSink", "nobody", "failed"),
    ]
    assert json.loads(rows[-1]["before"])["sinks"][0]["home"] == "broker-a"


def test_a_sink_that_nobody_knows_is_noted_with_its_topic(
    admin_beside, copies, ariane, ariane_json
):
    name = "query/unknown"
    words = ("sink", "move", name, "broker-b", "--home-is-gone", "--yes")
    error = ariane(*words, status=ExitStatus.USAGE)
    assert "--topic TOPIC" in error
    told = ariane(*words, "--topic", copies)
    assert told == f"broker-b now decides for sink {name}; no broker that answers knew it.\n"
    assert row_of(ariane_json("sink", "list"), name)["topic"] == copies
    ariane("sink", "delete", name, "--yes")


def test_prepared_batches_and_brokers_that_were_not_notified_are_shown(
    cluster, copies, ariane_json, ariane
):
    name = "query/waits"
    home = SinkHome(broker_name="broker-z")
    with grpc.insecure_channel(str(cluster.brokers[0].address)) as channel:
        note = NoteSinkHomeRequest(query_id=name, topic=copies, home=home)
        SinkServiceStub(channel).NoteSinkHome(note)
        attempt = stage_one(channel, name, copies)
        prepare = PrepareBatchRequest(
            query_id=name, batch_id=4, home=home, decision_id=1, attempts=[attempt]
        )
        SinkServiceStub(channel).PrepareBatch(prepare)
    row = row_of(ariane_json("sink", "list"), name)
    assert (row["home"], row["state"]) == ("broker-z", "home does not answer")
    assert row["prepared"] == {"broker-a": 4}
    assert row["staged_by_broker"] == {"broker-a": row["staged_bytes"]}
    assert (row["unnotified"], row["staged_rows"]) == ([], 1)
    # Its rows may be committed: only a home can say.
    error = ariane("sink", "delete", name, "--yes", status=ExitStatus.UNREACHABLE)
    assert "its home has not decided it" in error
    ariane("sink", "move", name, "broker-b", "--home-is-gone", "--yes")
    ariane("sink", "delete", name, "--yes")


def stage_one(channel, name, topic):
    """Stage one record of batch 4; the attempt as a commit names it."""
    encoder = BlockEncoder(topic, size_bytes_max=1 << 16)
    encoder.add(b"one", born_timestamp_ms=1_700_000_000_000)
    block = encoder.finish()
    request = StageBatchRecordsRequest(
        query_id=name,
        batch_id=4,
        attempt_token="t",
        topic=topic,
        record_sizes=block.sizes.astype("<i4").tobytes(),
        tag_codes=block.tag_codes.astype("<i4").tobytes(),
        key_counts=block.key_counts.tobytes(),
        key_hashes=block.key_hashes.astype("<i4").tobytes(),
        records_crc32=block.crc32,
        queue_ids=bytes(4),
        records=bytes(block.records),
    )
    TransactionServiceStub(channel).StageBatchRecords(request)
    checksum = zlib.crc32(block.crc32.to_bytes(4, "little"))
    return BatchAttempt(attempt_token="t", record_count=1, checksum=checksum)


def test_a_refusal_of_a_sink_command_is_one_line(sink, cluster, ariane):
    for words, status, text in (
        (("move", "nobody", "broker-b", "-y"), ExitStatus.NOT_FOUND, "no broker knows sink"),
        (("delete", "nobody", "--dry-run"), ExitStatus.NOT_FOUND, "no broker knows sink 'nobody'"),
        (("delete", "nobody", "-y"), ExitStatus.NOT_FOUND, "no broker knows sink 'nobody'"),
        (("move", sink, "broker-a", "-y"), ExitStatus.USAGE, "writes to broker broker-a already"),
        (("move", sink, "broker-z", "-y"), ExitStatus.UNREACHABLE, "no broker broker-z"),
        (("move", sink, "broker-b", "-y", "--committed-batch", "3"), ExitStatus.USAGE, "requires"),
        (("move", sink, "broker-b"), ExitStatus.USAGE, "from broker-a to broker-b? Give --yes"),
        (("delete", sink), ExitStatus.USAGE, "with 0 staged rows? Give --yes"),
    ):
        error = ariane("sink", *words, status=status)
        assert text in error, words
        assert "Traceback" not in error
    assert "broker-a" in ariane("sink", "list")


def test_a_sink_does_not_move_to_where_its_topic_is_not(cluster, ariane):
    stub = SinkServiceStub
    for broker in cluster.brokers:
        with grpc.insecure_channel(str(broker.address)) as channel:
            home = SinkHome(broker_name="broker-a")
            note = NoteSinkHomeRequest(query_id="q/nowhere", topic="nowhere", home=home)
            stub(channel).NoteSinkHome(note)

    error = ariane("sink", "move", "q/nowhere", "broker-b", "-y", status=ExitStatus.NOT_FOUND)

    assert "nowhere" in error
