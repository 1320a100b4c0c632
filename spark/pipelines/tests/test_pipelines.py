"""Archive and replay, against real brokers."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ariane_pipelines import (
    ArchivePlan,
    ReplayPlan,
    read_archive,
    replay,
    start_archive,
)
from ariane_pipelines.replaying import check_plan, replayed_tags
from ariane_sdk import Message
from ariane_spark.errors import OptionIllegal

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def moment(timestamp_ms):
    return EPOCH + timedelta(milliseconds=timestamp_ms)


@pytest.fixture
def publish(producer):
    def publish(topic, numbers):
        return producer.send_batch(
            [
                Message(
                    topic,
                    b"%d" % n,
                    tag=f"t{n % 2}",
                    keys=(f"key-{n}",),
                    message_group=f"g{n % 3}",
                    properties={"number": str(n)},
                )
                for n in numbers
            ]
        )

    return publish


@pytest.fixture
def plan(local_cluster, tmp_path):
    def plan(*topics, **more):
        return ArchivePlan(
            endpoints=local_cluster.name_servers,
            folder=str(tmp_path / "archive"),
            topics=topics,
            **more,
        )

    return plan


def numbers_of(frame):
    return Counter(int(bytes(row.body)) for row in frame.select("body").collect())


@pytest.mark.slow
@pytest.mark.spark
def test_an_archive_holds_every_message_once_in_few_files(
    spark, new_topic, publish, plan, tmp_path
):
    topics = [new_topic(), new_topic()]
    publish(topics[0], range(40))
    publish(topics[1], range(40, 60))
    archive = plan(*topics, batch_records_max=30)
    assert start_archive(spark, archive).awaitTermination(60)
    first = read_archive(spark, archive.folder)
    assert numbers_of(first) == Counter(range(60))

    # The last micro-batch is written, but Spark did not come to say so.
    commits = Path(archive.folder, "_checkpoint", "commits")
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    publish(topics[0], range(60, 70))
    assert start_archive(spark, archive).awaitTermination(60)

    frame = read_archive(spark, archive.folder)
    assert numbers_of(frame) == Counter(range(70))
    row = frame.where("CAST(body AS STRING) = '65'").first()
    assert (row.topic, row.tag, row["keys"], row.messageGroup) == (
        topics[0],
        "t1",
        ["key-65"],
        "g2",
    )
    assert row.properties == {"number": "65"}
    for topic in topics:
        (folder,) = Path(archive.folder).glob(f"date=*/topic={topic}")
        assert len(list(folder.glob("*.parquet"))) <= last + 2


@pytest.mark.slow
@pytest.mark.spark
def test_a_span_of_time_is_replayed_from_the_queue_or_the_archive(
    spark, local_cluster, new_topic, publish, plan, reading
):
    source, targets = new_topic(), [new_topic(), new_topic()]
    before = publish(source, range(10))
    since = max(result.store_timestamp_ms for result in before) + 1
    while not (between := publish(source, [10])) or between[0].store_timestamp_ms < since:
        before += between
    results = [*between, *publish(source, range(11, 60))]
    until = max(result.store_timestamp_ms for result in results) + 1
    wanted = {result.unique_id for result in results}
    archive = plan(source)
    assert start_archive(spark, archive).awaitTermination(60)

    for target, folder in zip(targets, (None, archive.folder), strict=True):
        sent = replay(
            spark,
            ReplayPlan(
                endpoints=local_cluster.name_servers,
                source=source,
                target=target,
                since=moment(since),
                until=moment(until),
                archive=folder,
            ),
        )

        rows = reading(target).load().collect()
        assert sent == len(rows) == len(wanted)
        places = {
            f"{r.message_queue.topic}/{r.message_queue.broker_name}"
            f"/{r.message_queue.queue_id}/{r.queue_offset}"
            for r in results
        }
        assert {row.properties["replayedFrom"] for row in rows} == places
        assert all(
            (row.tag, row["keys"], row.properties["number"])
            == (f"t{int(row.body) % 2}", [f"key-{int(row.body)}"], f"{int(row.body)}")
            for row in rows
        )
        for group in ("g0", "g1", "g2"):
            numbers = [int(row.body) for row in rows if row.messageGroup == group]
            assert numbers == sorted(numbers)


@pytest.mark.spark
def test_a_folder_without_an_archive_is_told_as_such(spark, tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in ("missing", "empty"):
        with pytest.raises(OptionIllegal, match=f"nothing is archived in .*{folder}") as refusal:
            read_archive(spark, str(tmp_path / folder))
        assert refusal.value.option == "archive"


def test_tags_mean_the_same_in_an_archive():
    assert replayed_tags("*") == replayed_tags(None) == frozenset()
    assert replayed_tags("a || b") == {"a", "b"}


def test_an_archive_is_of_topics_or_of_a_pattern(plan):
    for topics, pattern in ((("a",), "b"), ((), None)):
        with pytest.raises(OptionIllegal, match="name topics, or a pattern"):
            start_archive(None, plan(*topics, pattern=pattern))


def test_a_plan_that_makes_no_sense_is_refused():
    good = {
        "endpoints": "a:1",
        "source": "orders",
        "target": "again",
        "since": EPOCH,
        "until": EPOCH + MINUTE,
    }

    check_plan(ReplayPlan(**good))
    for change, clause in (
        ({"until": EPOCH}, "is not behind"),
        ({"since": EPOCH.replace(tzinfo=None)}, "need a time zone"),
        ({"target": "orders"}, "replay into itself"),
        ({"tag": "a | b"}, "joined by"),
        ({"tag": "a | b", "archive": "x"}, "joined by"),
    ):
        with pytest.raises(OptionIllegal, match=clause):
            check_plan(ReplayPlan(**{**good, **change}))
