"""What is refused by ``load()``, before a query runs; and what Spark 4.1 is given instead."""

import subprocess
import sys

import pytest

from ariane_spark.errors import OptionError, OptionIllegal, SparkTooOld
from ariane_spark.options.early_checks import check_given, check_read, check_spark
from pyspark_ariane import DefaultSource

PLACE = {"endpoints": "n:1", "topic": "orders"}


@pytest.mark.parametrize(
    ("given", "clause"),
    [
        ({"topik": "orders"}, "did you mean 'topic'"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger"),
        ({"endingOffsets": "{"}, "endingOffsets"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp"),
        ({"endpoints": "n"}, "host:port"),
        ({"columns": "bodi"}, "bodi"),
    ],
)
def test_a_wrong_option_of_a_read_is_refused_when_spark_asks_for_the_schema(given, clause):
    """That is in `load()`; readers are made when the query runs."""
    with pytest.raises(ValueError, match=clause):
        DefaultSource({**PLACE, **given}).schema()


def test_what_is_right_for_one_use_is_refused_by_the_reader_of_the_other():
    for given in ({"endingOffsets": "latest"}, {"maxOffsetsPerTrigger": "5"}, {}):
        check_read(PLACE | given)
    with pytest.raises(OptionIllegal, match=r"endingOffsets.*is for a batch read"):
        DefaultSource(PLACE | {"endingOffsets": "latest"}).streamReader(_schema()).initialOffset()
    with pytest.raises(OptionIllegal, match="is for a write"):
        check_read(PLACE | {"maxInFlight": "2"})


def test_options_that_a_table_cannot_have_are_explained():
    with pytest.raises(OptionError, match="any other option; Spark keeps no options of a table"):
        DefaultSource({})
    with pytest.raises(OptionError, match="CREATE TABLE without columns"):
        DefaultSource(PLACE | {"provider": "ariane"})


def test_a_misspelt_option_of_any_use_is_recognised():
    with pytest.raises(OptionError, match="did you mean 'deliveryGuarantee'"):
        DefaultSource(PLACE | {"deliveryGuarante": "exactly-once"})
    with pytest.raises(
        OptionError, match=r"'zzz': is not known; reads and writes know accessKey, assign, .*"
    ):
        DefaultSource(PLACE | {"zzz": "1"})


def test_with_a_schema_of_the_user_or_by_a_writer_options_are_looked_at_all_the_same():
    for given in (PLACE | {"maxInFlight": "2"}, {"endpoints": "n:1", "checkpointLocation": "x"}):
        check_given(given)
    for given in ({"maxInFlight": "none"}, {"deliveryGuarantee": "sometimes"}, {"topik": "x"}):
        with pytest.raises(OptionError, match=next(iter(given))):
            DefaultSource(PLACE | given)


@pytest.mark.spark
def test_load_refuses_and_says_so_in_one_line(spark):
    for read in (spark.read, spark.readStream):
        with pytest.raises(Exception, match="did you mean 'topic'") as refusal:
            read.format("ariane").options(endpoints="n:1", topik="orders").load()
        lines = [line for line in str(refusal.value).splitlines() if "did you mean" in line]
        assert lines == [
            "ariane_spark.errors.UnknownOption: option 'topik': is not known; did you mean 'topic'?"
        ]


def test_versions_of_spark():
    check_spark("4.0.5")
    check_spark("5.0.0.dev1")
    with pytest.raises(SparkTooOld, match=r"this is Spark 3\.5\.9.*needs 4\.0 or later"):
        check_spark("3.5.9")


OLD_SPARK = """
import sys
import pyspark.sql.datasource  # It needs it itself.
sys.modules["pyspark.sql.streaming.datasource"] = None  # Spark 4.1 has none.
sys.path.insert(0, {tests!r})
from conftest import MemoryCluster
from pyspark_ariane import DefaultSource
from ariane_spark.calls import connection
from ariane_spark.source import stream_reader

cluster = MemoryCluster()
cluster.add("orders", "broker-a", 0, 50)

def reader():
    given = dict(endpoints="n:1", topic="orders", startingOffsets="earliest", offsetCacheMs="0")
    source = DefaultSource(given | dict(maxOffsetsPerTrigger="20"))
    made = source.streamReader(source.schema())
    made._reader._connect = lambda options: cluster
    return made

def place(offsets):
    return offsets["orders"]["broker-a"]["0"]

first = reader()
start = first.initialOffset()
ends = [place(first.latestOffset()) for _ in range(4)]
assert ends == [20, 40, 50, 50], ends
# As Spark does when a query is started again: from where it stands to the same place.
again = reader()
stands = dict(start, orders={{"broker-a": {{"0": 20}}}})
assert again.partitions(stands, stands) == []
end = again.latestOffset()
assert place(end) == 40, end
(part,) = again.partitions(stands, end)
assert sum(map(len, again.read(part))) == 20
"""


def test_spark_41_is_given_a_reader_that_limits_itself():
    program = OLD_SPARK.format(tests=__file__.rpartition("/options/")[0])
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def _schema():
    return DefaultSource(PLACE).schema()
