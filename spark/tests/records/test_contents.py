"""What two writes of the same rows have in common, however the rows come."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_spark.records.contents import Contents, contents_of
from ariane_spark.records.rows import IdentitySeed, RowPlan

COLUMNS = {
    "body": pa.binary(),
    "topic": pa.string(),
    "tag": pa.string(),
    "keys": pa.list_(pa.string()),
    "messageGroup": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "deliveryTimestamp": pa.timestamp("us", "UTC"),
}
PLAN = RowPlan({name: at for at, name in enumerate(COLUMNS)}, None)
SCHEMA = pa.schema(list(COLUMNS.items()))

texts = st.none() | st.text(max_size=3)
rows = st.tuples(
    st.binary(max_size=300),
    st.sampled_from(["orders", "bills"]),
    texts,
    st.none() | st.lists(st.text(max_size=2), max_size=3),
    texts,
    st.none() | st.lists(st.tuples(st.text(max_size=2), st.text(max_size=2)), max_size=3),
    st.none() | st.integers(1, 3).map(lambda n: datetime.fromtimestamp(n / 10, UTC)),
)


def contents(table, task="task"):
    total = Contents()
    if table:
        columns = zip(*table, strict=True)
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)
        ]
        # A slice, as batches of Spark may be.
        batch = pa.record_batch([pa.concat_arrays([a, a]) for a in arrays], schema=SCHEMA)
        for part in PLAN.tables(batch.slice(len(table)), IdentitySeed(task), 0):
            total = total.plus(contents_of(part))
    return total


def meaning(row):
    """What a message has of a row: absent and empty are one, also for values of properties."""
    body, topic, tag, keys, group, properties, due = row
    pairs = sorted(pair for pair in properties or () if pair[1] and pair[0] != "messageId")
    return (body, topic, tag or "", sorted(filter(None, keys or ())), group or "", pairs, due)


@given(st.lists(rows, max_size=6), st.randoms(use_true_random=False), st.integers(0, 6))
def test_order_and_tasks_do_not_matter(table, chance, cut):
    dealt = chance.sample(table, len(table))

    parts = contents(dealt[:cut], "one").plus(contents(dealt[cut:], "two"))

    assert contents(table) == parts
    assert parts.row_count == len(table)
    assert 0 <= parts.total < 1 << 64


@given(rows, rows, st.lists(rows, max_size=2))
def test_other_rows_have_other_sums(one, two, others):
    same = contents([one, *others]) == contents([two, *others])

    assert same is (meaning(one) == meaning(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ([b"a", b"a"], [b"b", b"b"]),
        ([b"a", b"b", b"b"], [b"a", b"a", b"b"]),
        ([b"ab", b"c"], [b"a", b"bc"]),
        ([b""], [b"", b""]),
    ],
)
def test_bodies_do_not_cancel_out(one, two):
    def table(bodies):
        return [(body, "orders", None, None, None, None, None) for body in bodies]

    assert contents(table(one)) != contents(table(two))


def test_columns_are_told_apart():
    blank = [b"", "orders", None, None, None, None, None]
    found = set()
    for at, value in ((0, b"x"), (1, "x"), (2, "x"), (3, ["x"]), (4, "x"), (5, [("x", "")])):
        row = list(blank)
        row[at] = value
        found.add(contents([row]))
    for pairs in ([("", "x")], [("x", "y")], [("y", "x")]):
        found.add(contents([[*blank[:5], pairs, None]]))
    assert len(found) == 9
