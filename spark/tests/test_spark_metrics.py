"""Why the lag of a query is not in Spark's own progress: it asks a source in Python for none."""

import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def numbers(spark):
    """A stream of ten numbers, whose reader would say how many wait."""

    class Reader(DataSourceStreamReader):
        def initialOffset(self):  # noqa: N802 - Spark's name.
            return {"at": 0}

        def latestOffset(self, start, limit):  # noqa: N802 - the same.
            return {"at": 10}

        def metrics(self, *_):
            """As sources in Java have it."""
            return {"waiting": "10"}

        reportMetrics = metrics  # noqa: N815 - or however Spark might call it.

        def partitions(self, start, end):
            return [InputPartition((start["at"], end["at"]))]

        def read(self, partition):
            return ((number,) for number in range(*partition.value))

    class Numbers(DataSource):
        @classmethod
        def name(cls):
            return "waiting-numbers-of-a-test"

        def schema(self):
            return "number int"

        def streamReader(self, schema):  # noqa: N802 - the same.
            return Reader()

    spark.dataSource.register(Numbers)
    return spark.readStream.format("waiting-numbers-of-a-test").load()


def test_spark_asks_a_source_for_no_metrics(numbers, tmp_path):
    """When this fails, Spark does, and lag and rates can be in its progress and its UI."""
    writer = numbers.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)

    read = [each for each in query.recentProgress if each["numInputRows"]]

    assert [each["numInputRows"] for each in read] == [10]
    [source] = read[0]["sources"]
    assert not source.get("metrics")
