"""Sessions that are made for queues, and those that run already."""

import threading

import pytest

from ariane_spark import session
from ariane_spark.spark_session import first_settings

PARTITIONS = "spark.sql.shuffle.partitions"
ZONE = "spark.sql.session.timeZone"


@pytest.mark.parametrize(
    ("master", "own", "expected"),
    [
        ("local[4]", {}, "8"),
        ("local", {PARTITIONS: "50"}, "50"),
        ("spark://host:7077", {}, None),  # Spark's own: 200.
        (None, {}, None),
    ],
)
def test_a_session_of_one_machine_shuffles_in_few_parts(master, own, expected):
    settings = first_settings(master, own)

    assert settings.get(PARTITIONS) == expected
    assert settings.get("spark.master") == master


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_running_session_keeps_its_settings(spark, in_thread):
    names = (PARTITIONS, ZONE, "spark.app.name", "spark.master")
    had = {name: spark.conf.get(name) for name in names}
    own = {"spark.sql.caseSensitive": str(in_thread).lower()}
    got = []

    def again():
        got.append(session("again", master="local[3]", settings=own))

    if in_thread:
        thread = threading.Thread(target=again)
        thread.start()
        thread.join()
    else:
        again()

    assert got == [spark]
    assert {name: spark.conf.get(name) for name in had} == had
    assert spark.conf.get("spark.sql.caseSensitive") == own["spark.sql.caseSensitive"]
    spark.conf.unset("spark.sql.caseSensitive")
