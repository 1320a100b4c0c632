"""Topics as streams: triggers, checkpoints, offsets."""

import json

import pytest

from ariane_sdk import Message

pytestmark = pytest.mark.spark


@pytest.fixture
def run(tmp_path):
    """Runs a streaming frame until everything is done; what each micro-batch brought, by number."""

    def run(frame, name="checkpoint", **trigger):
        batches = {}

        def collect(rows, batch_id):
            batches[batch_id] = sorted(int(row.body) for row in rows.select("body").collect())

        query = (
            frame.writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )
        assert query.awaitTermination(60)
        return batches

    return run


@pytest.fixture
def publish(producer):
    def publish(topic, numbers):
        return producer.send_batch([Message(topic, b"%d" % number) for number in numbers])

    return publish


def test_available_now_reads_everything_once_and_goes_on_after_a_restart(
    streaming, topic, publish, run, tmp_path
):
    publish(topic, range(100))
    frame = streaming(topic, startingOffsets="earliest").load()

    first = run(frame)
    again = run(frame)
    publish(topic, range(100, 130))
    second = run(frame)

    assert sorted(numbers_of(first)) == list(range(100))
    assert again == {}
    assert sorted(numbers_of(second)) == list(range(100, 130))
    assert offsets_of(tmp_path / "checkpoint", max(second)) == canonical(
        offsets_of(tmp_path / "checkpoint", max(second))
    )


@pytest.fixture
def publish_to_one(producer):
    """Publishes to the same queue of a topic each time."""

    def publish(topic, numbers):
        producer.send_batch([Message(topic, b"%d" % n, message_group="g") for n in numbers])

    return publish


@pytest.fixture
def make_anew(client, publish_to_one):
    """Deletes a topic and makes it again, with other messages and more of them."""

    def make_anew(topic, numbers):
        client.delete_topic(topic)
        client.create_topic(topic, queue_count=2)
        publish_to_one(topic, numbers)

    return make_anew


@pytest.mark.slow
def test_a_topic_made_anew_and_longer_is_a_loss(streaming, topic, publish_to_one, run, make_anew):
    publish_to_one(topic, range(100))
    frame = streaming(topic, startingOffsets="earliest").load()
    run(frame)
    make_anew(topic, range(1000, 1400))

    with pytest.raises(Exception, match=r"DataLost.*was deleted and made anew"):
        run(frame)

    anew = run(streaming(topic, failOnDataLoss="false").load())
    assert sorted(numbers_of(anew)) == list(range(1000, 1400))


@pytest.mark.slow
def test_a_topic_made_anew_under_an_unfinished_batch_is_a_loss(
    streaming, topic, publish_to_one, run, make_anew, tmp_path
):
    publish_to_one(topic, range(100))
    frame = streaming(topic, startingOffsets="earliest").load()
    (last,) = run(frame)
    for name in (str(last), f".{last}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    make_anew(topic, range(1000, 1400))

    with pytest.raises(Exception, match=r"DataLost.*was deleted and made anew"):
        run(frame)


@pytest.mark.slow
def test_a_topic_that_was_deleted_is_a_loss_and_says_where_it_was_read(
    streaming, topic, publish, run, client
):
    publish(topic, range(100))
    frame = streaming(topic, startingOffsets="earliest").load()
    run(frame)
    client.delete_topic(topic)

    with pytest.raises(Exception, match=rf"DataLost.*{topic}@broker-.*to be read from \d+ on"):
        run(frame)


@pytest.mark.slow
def test_a_limit_makes_many_batches(streaming, topic, publish, run):
    publish(topic, range(100))

    batches = run(streaming(topic, startingOffsets="earliest", maxOffsetsPerTrigger="30").load())

    assert [len(numbers) for numbers in batches.values()] == [30, 30, 30, 10]
    assert sorted(numbers_of(batches)) == list(range(100))


@pytest.mark.slow
def test_a_new_stream_starts_at_the_latest(streaming, topic, publish, run):
    publish(topic, range(10))
    frame = streaming(topic).load()

    assert numbers_of(run(frame)) == []
    publish(topic, range(10, 15))
    assert sorted(numbers_of(run(frame))) == list(range(10, 15))


@pytest.mark.slow
@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"once": True}])
def test_a_queue_that_appears_is_read_from_its_earliest(
    streaming, new_topic, widen, publish, run, trigger
):
    topic = new_topic(1)
    publish(topic, range(10))
    frame = streaming(topic, startingOffsets="earliest").load()
    before = run(frame)
    widen(topic, 4)
    publish(topic, range(10, 60))

    after = run(frame, **trigger)

    assert sorted([*numbers_of(before), *numbers_of(after)]) == list(range(60))


@pytest.mark.slow
def test_an_unfinished_batch_is_read_again_the_same(streaming, topic, publish, run, tmp_path):
    publish(topic, range(50))
    frame = streaming(topic, startingOffsets="earliest", maxOffsetsPerTrigger="20").load()
    first = run(frame)
    last = max(first)
    (tmp_path / "checkpoint" / "commits" / str(last)).unlink()
    (tmp_path / "checkpoint" / "commits" / f".{last}.crc").unlink(missing_ok=True)
    publish(topic, range(50, 60))

    again = run(frame)

    assert again[last] == first[last]
    assert sorted(numbers_of(again)) == sorted(first[last] + list(range(50, 60)))


def test_an_idle_query_makes_no_batches_and_shows_its_lag(
    streaming, topic, publish, tmp_path, spark
):
    publish(topic, range(20))
    frame = streaming(topic, startingOffsets="earliest", offsetCacheMs="0").load()
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        query.processAllAvailable()
        publish(topic, range(20, 30))
        query.processAllAvailable()
        progress = [p for p in query.recentProgress if p.numInputRows]
    finally:
        query.stop()

    assert [p.numInputRows for p in progress] == [20, 10]
    source = progress[-1].sources[0]
    assert json.loads(source.endOffset) == json.loads(source.latestOffset)
    assert len(list((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))) == 2


def numbers_of(batches):
    return [number for numbers in batches.values() for number in numbers]


def offsets_of(checkpoint, batch_id):
    """The line of the offset log that the source wrote."""
    return (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[-1]


def canonical(text):
    """The same offsets, sorted as documented."""
    offsets = json.loads(text)
    return json.dumps(
        {
            topic: {
                broker: dict(sorted(queues.items(), key=lambda item: (len(item[0]), item[0])))
                for broker, queues in sorted(brokers.items())
            }
            for topic, brokers in sorted(offsets.items())
        }
    )
