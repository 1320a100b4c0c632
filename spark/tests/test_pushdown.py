"""Why filters and columns are not taken from Spark: what it does with a data source in Python.

Since SPARK-51575, ``PythonScanBuilder.pushFilters`` stores the read that it has planned in
``PythonDataSourceV2``, of which there is one for each ``load()``; all scans of it then use that
read, and a reader in Python is not told for which of them. SPARK-58551 keeps it in the scan.
"""

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition

pytestmark = pytest.mark.spark


@pytest.fixture
def widths(spark):
    """A source of one row, which says how many columns its reader was asked for."""

    class Reader(DataSourceReader):
        def __init__(self, schema):
            self.width = len(schema.fields)

        def read(self, _):
            return iter([(self.width, b"body", "tag")[: self.width]])

    class Widths(DataSource):
        @classmethod
        def name(cls):
            return "widths-of-a-test"

        def schema(self):
            return "width int, body binary, tag string"

        def reader(self, schema):
            return Reader(schema)

    spark.dataSource.register(Widths)
    return spark.read.format("widths-of-a-test").load()


def test_a_source_is_not_told_which_columns_a_query_uses(widths):
    """When this fails, Spark says it, and `count()` need not read bodies any more."""
    # A count of rows uses none.
    assert widths.count() == 1
    assert [row.width for row in widths.select("width").collect()] == [3]
    assert widths.groupBy("width").count().collect()[0].width == 3


@pytest.fixture
def numbers(spark):
    """A source of the numbers 0 to 9 that takes every equality from Spark, and is right to."""

    class Reader(DataSourceReader):
        def __init__(self):
            self.wanted = None

        def pushFilters(self, filters):  # noqa: N802 - Spark's name
            for each in filters:
                if isinstance(each, EqualTo) and each.attribute == ("number",):
                    self.wanted = each.value
                else:
                    yield each

        def partitions(self):
            return [InputPartition(0)]

        def read(self, _):
            wanted = self.wanted
            return ((number,) for number in range(10) if wanted in {None, number})

    class Numbers(DataSource):
        @classmethod
        def name(cls):
            return "numbers-of-a-test"

        def schema(self):
            return "number int"

        def reader(self, schema):
            return Reader()

    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "true")
    spark.dataSource.register(Numbers)
    yield lambda: spark.read.format("numbers-of-a-test").load()
    spark.conf.set(setting, before)


def numbers_in(frame):
    return sorted(row.number for row in frame.collect())


@pytest.mark.slow
def test_filters_of_one_query_reach_another_over_the_same_load(numbers):
    """When this fails, Spark has mended it, and the option `pushdown` can come."""
    assert numbers_in(numbers().filter("number = 3")) == [3]
    frame = numbers()
    both = frame.filter("number = 3").union(frame.filter("number = 5"))
    whole = numbers()
    assert numbers_in(whole.filter("number = 3")) == [3]
    right = numbers_in(both) == [3, 5] and numbers_in(whole) == list(range(10))
    assert not right, "Spark gives each query its own filters now"
