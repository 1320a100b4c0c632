"""Topics in SQL alone: views, tables of the catalog, and what Spark cannot do with them."""

# ruff: noqa: S608 - nobody else gives these names.
import pytest
from pyspark.errors import AnalysisException

from ariane_sdk import Message

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def place(local_cluster, topic):
    """Where a topic is, as SQL has it; and views and tables of these names are gone after it."""
    return f"endpoints = '{local_cluster.name_servers}', topic = '{topic}'"


@pytest.fixture
def names(spark, topic):
    name = topic.replace("-", "_")
    yield f"view_{name}", f"table_{name}"
    spark.sql(f"DROP VIEW IF EXISTS view_{name}")
    spark.sql(f"DROP TABLE IF EXISTS table_{name}")


def test_a_view_is_read_and_one_with_columns_is_written(spark, place, names, topic, producer):
    view, _ = names
    options = place.replace(" =", "")
    spark.sql(
        f"CREATE TEMPORARY VIEW {view} (body BINARY, tag STRING) USING ariane OPTIONS ({options})"
    )
    spark.sql(f"INSERT INTO {view} VALUES (CAST('one' AS BINARY), 'a')")
    producer.send(Message(topic, b"two", tag="b"))
    rows = spark.sql(f"SELECT CAST(body AS STRING), tag FROM {view}").collect()
    assert sorted(map(tuple, rows)) == [("one", "a"), ("two", "b")]


def test_a_table_has_its_options_in_each_statement(spark, place, names):
    _, table = names
    spark.sql(f"CREATE TABLE {table} (body BINARY) USING ariane")
    once = f"{place}, deliveryGuarantee = 'exactly-once', writeId = 'sql'"
    for _ in range(2):
        spark.sql(f"INSERT INTO {table} WITH ({once}) SELECT CAST('row' AS BINARY) FROM range(5)")
    # A new plan at each statement, as each names its options.
    for count in (5, 6):
        [row] = spark.sql(f"SELECT count(*) AS n FROM {table} WITH ({place})").collect()
        assert row.n == count
        spark.sql(f"INSERT INTO {table} WITH ({place}) VALUES (CAST('more' AS BINARY))")
    with pytest.raises(AnalysisException, match=r"as is any other option; .* WITH \(endpoints"):
        spark.sql(f"SELECT * FROM {table}").collect()


def test_a_table_without_columns_is_refused_with_what_to_do(spark, place, names):
    _, table = names
    options = place.replace(" =", "")
    with pytest.raises(AnalysisException, match=r"CREATE TABLE without columns; .* or use a view"):
        spark.sql(f"CREATE TABLE {table} USING ariane OPTIONS ({options})")
