"""Options: what is understood, and what is refused and how."""

import pickle

import pytest

from ariane_record.single.compression import Compression
from ariane_sdk import MessageQueue, ProducerSettings
from ariane_spark.errors import (
    FeatureNotAvailable,
    OptionError,
    OptionIllegal,
    UnknownOption,
)
from ariane_spark.options.given_options import GivenOptions
from ariane_spark.options.option_table import OPTIONS, Use
from ariane_spark.options.options import (
    TriggerLimits,
    check_columns,
    column_names,
    read_options,
)
from ariane_spark.options.write_options import BodyCompression, write_options
from ariane_spark.positions.partitions import PartitionLimits
from ariane_spark.positions.position_rules import AtGroup, AtOffsets, AtTime, AtTimes, Edge
from ariane_spark.positions.queue_selection import AssignedQueues, NamedTopics, TopicPattern

NEEDED = {"endpoints": "127.0.0.1:9876", "topic": "orders"}


def read(use=Use.BATCH_READ, **given):
    return read_options({**NEEDED, **given}, use)


def test_what_holds_when_nothing_is_said():
    batch = read()
    stream = read(Use.STREAM_READ)

    assert batch.selection == NamedTopics(("orders",))
    assert batch.endpoints == "127.0.0.1:9876"
    assert (batch.starting, batch.ending) == (Edge.EARLIEST, Edge.LATEST)
    assert stream.starting is Edge.LATEST
    assert batch.fail_on_data_loss is True
    assert batch.trigger == TriggerLimits(None, None, None, 900_000)
    assert batch.tags == frozenset()
    assert batch.commit_group is None
    assert batch.limits == PartitionLimits()
    assert batch.fetch_bytes == 2 << 20
    assert (stream.offset_cache_ms, stream.requests.retries_max) == (500, 8)


def test_everything_said_is_obeyed_whatever_the_case():
    options = read_options(
        {
            "ENDPOINTS": " a:1 , b:2 ",
            "topics": "orders, refunds",
            "startingoffsets": '{"refunds": {"broker-a": {"3": 5}}}',
            "failondataloss": "FALSE",
            "maxoffsetspertrigger": "1000",
            "minpartitions": "3",
            "maxpartitions": "30",
            "maxrecordsperpartition": "5000",
            "fetchmaxbytes": "65536",
            "offsetcachems": "0",
            "requesttimeoutms": "250",
            "numretries": "0",
            "retrybackoffms": "0",
        },
        Use.STREAM_READ,
    )

    assert options.endpoints == "a:1,b:2"
    assert options.selection == NamedTopics(("orders", "refunds"))
    assert options.starting == AtOffsets({MessageQueue("refunds", "broker-a", 3): 5})
    assert options.fail_on_data_loss is False
    assert options.trigger.records_max == 1000
    assert options.limits == PartitionLimits(3, 30, 5000)
    assert options.fetch_bytes == 65536
    assert options.offset_cache_ms == 0
    assert (options.requests.timeout_ms, options.requests.retries_max) == (250, 0)
    assert options.requests.backoff_ms == 0


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("0", 0),
        ("1360299600000", 1360299600000),
        ("2013-02-08T05:00:00Z", 1360299600000),
        ("2013-02-08T00:00:00.250-05:00", 1360299600250),
        # Messages are stored at whole milliseconds: the first at or after this one.
        ("2013-02-08T05:00:00.122001Z", 1360299600123),
        ("2013-02-08T05:00:00.123Z", 1360299600123),
        ("0001-01-01T00:00:00+05:00", 0),
    ],
)
def test_times(text, timestamp_ms):
    options = read(startingTimestamp=text, endingTimestamp=text)

    assert options.starting == options.ending == AtTime(timestamp_ms)


@pytest.mark.parametrize(
    ("given", "option", "clause"),
    [
        ({"endpoints": ""}, "endpoints", "is empty"),
        ({"endpoints": "127.0.0.1"}, "endpoints", "not of the form host:port"),
        ({"endpoints": "a:1,,b:2"}, "endpoints", "not of the form host:port"),
        ({"endpoints": "ftp://a:1"}, "endpoints", "not of the form host:port"),
        ({"endpoints": "a:0"}, "endpoints", "not of the form host:port"),
        ({"endpoints": "a:65536"}, "endpoints", "not of the form host:port"),
        ({"topic": "orders,refunds"}, "topic", "several go into 'topics'"),
        ({"topics": "a,b"}, "topics", "contradicts 'topic'"),
        ({"topic": "orders!"}, "topic", "'orders!'"),
        ({"startingOffsets": "latest"}, "startingOffsets", "reads nothing"),
        ({"endingOffsets": "earliest"}, "endingOffsets", "reads nothing"),
        ({"startingOffsets": "newest"}, "startingOffsets", "neither earliest nor latest"),
        ({"startingOffsets": '{"x": {"b": {"0": 1}}}'}, "startingOffsets", "names x, which is"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp", "nor ISO 8601"),
        ({"startingTimestamp": "2013-02-08T05:00:00"}, "startingTimestamp", "with an offset"),
        ({"startingTimestamp": "9" * 5000}, "startingTimestamp", "before the year 10000"),
        ({"startingTimestamp": "9999-12-31T23:59:59.9999Z"}, "startingTimestamp", "year 10000"),
        ({"endingTimestamp": "9999-12-31T23:00:00-05:00"}, "endingTimestamp", "year 10000"),
        ({"endingTimestamp": "253402300800000"}, "endingTimestamp", "before the year 10000"),
        (
            {"startingTimestamp": "1", "startingOffsets": "earliest"},
            "startingTimestamp",
            "contradicts 'startingOffsets'",
        ),
        ({"maxPartitions": "0"}, "maxPartitions", "out of range: 1 to "),
        ({"maxPartitions": "-1"}, "maxPartitions", "no whole number"),
        ({"minPartitions": "4", "maxPartitions": "3"}, "maxPartitions", "less than 'minPart"),
        ({"minPartitions": str(2**63)}, "minPartitions", "1 to 9223372036854775807"),
        ({"requestTimeoutMs": "9" * 20}, "requestTimeoutMs", "1 to 3600000"),
        ({"group": "no such group"}, "group", "1 to 120 characters"),
        ({"fetchMaxBytes": "1024"}, "fetchMaxBytes", "65536 to 4194304"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss", "neither true nor false"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger", "is for a stream read"),
        ({"deliveryGuarantee": "at-least-once"}, "deliveryGuarantee", "is for a write"),
    ],
)
def test_illegal_values_are_refused_by_name(given, option, clause):
    with pytest.raises(OptionIllegal, match=clause) as refusal:
        read(**given)

    assert refusal.value.option == option


@pytest.mark.parametrize(
    ("missing", "clause"), [("endpoints", "127.0.0.1:9876"), ("topic", "name one")]
)
def test_what_must_be_given(missing, clause):
    given = {name: value for name, value in NEEDED.items() if name != missing}

    with pytest.raises(OptionIllegal, match=clause) as refusal:
        read_options(given, Use.BATCH_READ)

    assert refusal.value.option == missing


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("startingOffset", "startingOffsets"),
        ("max_partitions", "maxPartitions"),
        ("endpoint", "endpoints"),
        ("subscribe", "topics"),
        ("kafka.bootstrap.servers", "endpoints"),
    ],
)
def test_unknown_options_name_the_nearest(name, nearest):
    with pytest.raises(UnknownOption, match=f"did you mean '{nearest}'"):
        read(**{name: "1"})


def test_options_like_nothing_at_all_list_what_there_is():
    with pytest.raises(
        UnknownOption, match="a batch read knows accessKey, assign, columns, endingOffsets"
    ):
        read(zzz="1")


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.later], ids=str)
def test_options_of_later_versions_are_refused_not_ignored(option):
    for use in option.uses:
        with pytest.raises(FeatureNotAvailable, match=r"not available yet; .* where") as refusal:
            GivenOptions({**NEEDED, option.name: "1"}, use)

        assert refusal.value.option == option.name


def test_writing():
    assert write_options(NEEDED).topic == "orders"
    assert write_options({"endpoints": "a:1", "deliveryGuarantee": "at-least-once"}).topic is None
    exactly = {**NEEDED, "deliveryGuarantee": "exactly-once", "sinkId": "s", "batchBytes": "65536"}
    options = write_options(exactly)
    assert (options.exactly_once, options.sink_id, options.batch_bytes) == (True, "s", 65536)
    with pytest.raises(OptionIllegal, match="only with deliveryGuarantee='exactly-once'"):
        write_options({**NEEDED, "sinkId": "s"})
    with pytest.raises(OptionIllegal, match="each task has one request under way"):
        write_options({**exactly, "maxInFlight": "2"})
    aside = {"onBadRow": "deadLetter", "deadLetterTopic": "aside"}
    assert write_options({**NEEDED, **aside}).dead_letter_topic == "aside"
    for wrong, text in (
        ({"topic": "orders!"}, "'topic': .*'orders!'"),  # Else all rows would be bad ones.
        ({"deadLetterTopic": "a b"}, "'deadLetterTopic': .*'a b'"),
        ({"deadLetterTopic": "orders"}, "the topic of the good rows"),
    ):
        with pytest.raises(OptionIllegal, match=text):
            write_options({**NEEDED, **aside, **wrong})
    with pytest.raises(OptionIllegal, match="'maybe' is neither"):
        write_options({**NEEDED, "deliveryGuarantee": "maybe"})


def test_compression_is_that_of_producers():
    producer = ProducerSettings()
    assert write_options(NEEDED).compression == BodyCompression(
        producer.compression, producer.compress_bytes_min, producer.compression_level
    )
    given = {"compression": "LZ4", "compressBytesMin": "0", "compressionLevel": "9"}
    assert write_options({**NEEDED, **given}).compression == BodyCompression(Compression.LZ4, 0, 9)
    for wrong, text in (
        ({"compression": "brotli"}, "none of none, lz4, zstd, zlib"),
        ({"compressionLevel": "5"}, "only with 'compression'"),
        ({"compressBytesMin": "5", "compression": "none"}, "only with 'compression'"),
        ({"compression": "zstd", "compressionLevel": "10"}, "out of range"),
    ):
        with pytest.raises(OptionIllegal, match=text):
            write_options({**NEEDED, **wrong})


def test_columns_are_known_before_the_use_is():
    assert column_names({}) is None
    assert column_names({"topic": "x", "columns": "body, queueId"}) == ("body", "queueId")


def test_columns_and_a_schema_agree():
    for given in ({}, {"Columns": "Body, queueId"}, {"includeProperties": "false"}):
        check_columns(given, ["body", "queueid"])
    for columns in ("body", "queueId, body", "body, queueId, tag"):
        with pytest.raises(OptionIllegal, match="other columns than the schema"):
            check_columns({"columns": columns}, ["body", "queueId"])


def test_errors_survive_the_way_between_processes():
    with pytest.raises(OptionError) as refusal:
        read(maxPartitions="0")

    copied = pickle.loads(pickle.dumps(refusal.value))  # noqa: S301 - our own bytes.

    assert type(copied) is OptionIllegal
    assert (str(copied), copied.option) == (str(refusal.value), "maxPartitions")


def test_which_queues():
    queues = {MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)}
    for text in (
        '{"orders": {"broker-a": [0, 1]}}',
        '["orders/broker-a/0", "orders/broker-a/1"]',
    ):
        assert selected(assign=text) == AssignedQueues(frozenset(queues))
    assert selected(topicsPattern="orders-.*") == TopicPattern("orders-.*")
    assert selected(topics="a,b") == NamedTopics(("a", "b"))


def selected(**given):
    return read_options({"endpoints": "a:1", **given}, Use.BATCH_READ).selection


@pytest.mark.parametrize(
    ("given", "option", "clause"),
    [
        ({}, "topic", "is missing"),
        ({"topic": "a", "topicsPattern": "b"}, "topicsPattern", "contradicts 'topic'"),
        ({"assign": '["a/b/0"]', "topics": "a"}, "assign", "contradicts 'topics'"),
        ({"topicsPattern": "("}, "topicsPattern", "no regular expression"),
        ({"assign": "[]"}, "assign", "names no queue"),
        ({"assign": '["a/b"]'}, "assign", "topic/broker/queue id"),
        ({"assign": '{"a": {"b": 0}}'}, "assign", "expected a list of queue ids"),
        ({"assign": '{"a": {"b": ["x"]}}'}, "assign", "'x' is no queue id"),
        ({"topic": "a", "tag": "b ||"}, "tag", "joined by"),
        ({"topic": "a", "tag": "b | c"}, "tag", "joined by"),
        ({"topic": "a", "tag": "b\x01"}, "tag", "control character"),
        (
            {"topic": "a", "startingOffsetsByTimestamp": '{"a/b/0": 1.5}'},
            "startingOffsetsByTimestamp",
            "1.5 is no time",
        ),
        (
            {"topicsPattern": "a.*", "endingOffsetsByTimestamp": '{"b/b/0": 1}'},
            "endingOffsetsByTimestamp",
            "names b, which is not read",
        ),
        (
            {"topic": "a", "startingOffsetsByTimestampStrategy": "error"},
            "startingOffsetsByTimestampStrategy",
            "only with a starting time",
        ),
        (
            {
                "topic": "a",
                "startingTimestamp": "1",
                "startingOffsetsByTimestampStrategy": "earliest",
            },
            "startingOffsetsByTimestampStrategy",
            "neither latest nor error",
        ),
        ({"topic": "a", "includeProperties": "maybe"}, "includeProperties", "neither true"),
    ],
)
def test_what_to_read_is_refused_by_name(given, option, clause):
    with pytest.raises(OptionIllegal, match=clause) as refusal:
        selected(**given)

    assert refusal.value.option == option


def test_times_by_queue_and_a_group():
    times = '{"orders": {"broker-a": {"0": 60, "1": "1970-01-01T00:00:01Z"}}}'
    options = read(
        startingOffsetsByTimestamp=times,
        startingOffsetsByTimestampStrategy="error",
        endingOffsetsByTimestamp='{"orders/broker-a/0": 70}',
        group="billing",
    )

    queues = [MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1)]
    wanted = AtTimes({queues[0]: 60, queues[1]: 1000}, strict=True)
    assert options.starting == AtGroup("billing", wanted)
    assert options.ending == AtTimes({queues[0]: 70})


@pytest.mark.parametrize(
    ("starting", "ending"),
    [
        ({"startingTimestamp": "90"}, {"endingTimestamp": "60"}),
        (
            {"startingOffsets": '{"orders/broker-a/0": 9}'},
            {"endingOffsets": '{"orders/broker-a/0": 3, "orders/broker-a/1": 3}'},
        ),
        (
            {"startingOffsetsByTimestamp": '{"orders/broker-a/0": 90}'},
            {"endingOffsetsByTimestamp": '{"orders/broker-a/0": 60}'},
        ),
    ],
)
def test_an_end_before_the_start_is_a_slip_of_the_pen(starting, ending):
    (start,), (end,) = starting, ending
    for group in ({}, {"group": "billing"}):
        with pytest.raises(OptionIllegal, match=f"is before '{start}'") as refusal:
            read(**starting, **ending, **group)

        assert refusal.value.option == end


def test_an_end_at_the_start_or_at_an_edge_is_none():
    for end in (9, -1, -2):
        read(
            startingOffsets='{"orders/broker-a/0": 9}',
            endingOffsets=f'{{"orders/broker-a/0": {end}}}',
        )


def test_damaged_bodies_fail_or_are_null():
    assert not read().null_if_damaged
    assert not read(onDamagedBody="fail").null_if_damaged
    assert read(onDamagedBody="null").null_if_damaged
    with pytest.raises(OptionIllegal, match="neither 'fail' nor 'null'"):
        read(onDamagedBody="skip")


def test_tags():
    assert read(tag="created").tags == {"created"}
    assert read(tag=" created || paid ").tags == {"created", "paid"}
    assert read(tag="*").tags == frozenset()


def test_conditions():
    assert read().condition == ""
    assert read(filter="a = 1 AND b = 'x'").condition == "a = 1 AND b = 'x'"
    with pytest.raises(OptionIllegal, match=r"'a like 1': .*character 3: 'like' was not expected"):
        read(filter="a like 1")
    with pytest.raises(OptionIllegal, match="not with 'tag'"):
        read(filter="a = 1", tag="created")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("0ms", 0), ("250ms", 250), ("10s", 10_000), ("15 minutes", 900_000), ("1h", 3_600_000)],
)
def test_limits_of_a_trigger(text, milliseconds):
    options = read(
        Use.STREAM_READ,
        maxOffsetsPerTrigger="9",
        maxBytesPerTrigger="1000",
        minOffsetsPerTrigger="5",
        maxTriggerDelay=text,
        commitGroup="spark",
    )

    assert options.trigger == TriggerLimits(9, 1000, 5, milliseconds)
    assert options.commit_group == "spark"


@pytest.mark.parametrize(
    ("given", "option", "clause"),
    [
        ({"maxTriggerDelay": "5"}, "maxTriggerDelay", "'500ms', '10s' or '15m'"),
        ({"maxTriggerDelay": "5 parsecs"}, "maxTriggerDelay", "'500ms', '10s' or '15m'"),
        ({"maxTriggerDelay": "5s"}, "maxTriggerDelay", "only with 'minOffsetsPerTrigger'"),
        ({"commitGroup": "a b"}, "commitGroup", "1 to 120 characters"),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "maxOffsetsPerTrigger",
            "is less than 'minOff",
        ),
    ],
)
def test_limits_that_cannot_be(given, option, clause):
    with pytest.raises(OptionIllegal, match=clause) as refusal:
        read(Use.STREAM_READ, **given)

    assert refusal.value.option == option


def test_properties_may_be_left_out():
    names = column_names({"includeProperties": "false"})

    assert "properties" not in names
    assert names[-1] == "body"
    assert column_names({"includeProperties": "true"}) is None
    assert column_names({"includeProperties": "false", "columns": "properties"}) == ("properties",)
