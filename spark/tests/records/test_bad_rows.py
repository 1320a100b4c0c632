"""Rows that cannot become messages are told once, or sent aside."""

import json

import pyarrow as pa
import pytest

from ariane_sdk.errors import ColumnIllegal
from ariane_spark.errors import RowIllegal
from ariane_spark.options.write_options import WriteOptions
from ariane_spark.records.bad_rows import BODY_BYTES_MAX, RowRefused, RowSieve, raise_refusals
from ariane_spark.records.rows import IdentitySeed, RowPlan
from ariane_spark.sink.batch_writer import ArianeBatchWriter

SEED = IdentitySeed("query/7/0")
COLUMNS = "body binary, topic string, tag string, keys array<string>"


def batch_of(*rows):
    columns = list(zip(*rows, strict=True))
    types = (pa.binary(), pa.string(), pa.string(), pa.list_(pa.string()))
    names = ("body", "topic", "tag", "keys")
    arrays = [pa.array(list(c), kind) for c, kind in zip(columns, types, strict=True)]
    return pa.record_batch(arrays, names=names)


def good(number):
    return (b"%d" % number, f"t{number % 2}", "tag", ["key"])


BAD = {
    "has no body": (None, "t0", "tag", ["key"]),
    "has no topic": (b"\xff", None, "tag", ["key"]),
    "no/topic": (b"x", "no/topic", "tag", ["key"]),
    "are allowed": (b"x" * (BODY_BYTES_MAX + 1), "t0", "tag", ["key"]),
    "'keys'": (b"x", "t1", "tag", [""]),
    "'tag'": (b"x", "t1", "one || two", ["key"]),
}


@pytest.fixture
def sieve(ddl):
    return RowSieve(RowPlan.of(ddl(COLUMNS), None), "aside")


def sifted(sieve, batch, first_row=100):
    shares = list(sieve.tables(batch, SEED, first_row))
    letters = [share for share in shares if share.topic == "aside"]
    return [share for share in shares if share.topic != "aside"], letters


def test_bad_rows_go_aside_and_the_others_stay_in_order(sieve):
    rows = []
    for number, bad in enumerate(BAD.values()):
        rows += [good(3 * number), good(3 * number + 1), bad, good(3 * number + 2)]

    shares, (letters,) = sifted(sieve, batch_of(*rows))

    for share in shares:
        numbers = [int(body) for body in share.table["body"].to_pylist()]
        assert numbers == [n for n in range(3 * len(BAD)) if f"t{n % 2}" == share.topic]
        assert [rows[row - 100][0] for row in share.rows] == share.table["body"].to_pylist()
    assert letters.rows.tolist() == [102 + 4 * at for at in range(len(BAD))]
    table = letters.table.to_pylist()
    for (clause, row), letter in zip(BAD.items(), table, strict=True):
        told, properties = json.loads(letter["body"]), dict(letter["properties"])
        assert clause in properties["refusedBecause"]
        assert len(properties["messageId"]) == 32
        assert told["topic"] == row[1]
        assert told["keys"] == row[3]
    bodies = [json.loads(body)["body"] for body in letters.table["body"].to_pylist()]
    assert bodies == [None, {"base64": "/w=="}, "x", None, "x", "x"], "too large a body is left out"


def test_all_rows_may_be_bad_and_none(sieve):
    assert sifted(sieve, batch_of(*[BAD["'keys'"]] * 1000))[1][0].table.num_rows == 1000
    shares, letters = sifted(sieve, batch_of(*map(good, range(1000))))
    assert sum(map(len, (share.rows for share in shares))) == 1000
    assert letters == []


def test_a_column_that_is_wrong_as_a_whole_is_no_bad_row(ddl):
    sieve = RowSieve(RowPlan.of(ddl("body binary, tag string"), "t"), "aside")
    batch = pa.record_batch({"body": pa.array([b"x"]), "tag": pa.array([1])})
    with pytest.raises(ColumnIllegal):
        list(sieve.tables(batch, SEED, 0))


def test_a_task_with_a_bad_row_is_not_repeated_and_the_driver_says_which(ddl):
    class Sender:
        def send_columns(self, topic, table):
            sent.append(topic)

    sent = []
    plan = RowPlan.of(ddl(COLUMNS), None)
    writer = ArianeBatchWriter(WriteOptions("n:1"), plan, lambda options: Sender())
    batches = iter([batch_of(good(0)), batch_of(BAD["has no body"]), batch_of(good(1))])

    receipt = writer.write(batches)

    assert isinstance(receipt, RowRefused)
    assert sent == ["t0"]
    assert next(batches, None) is None, "Spark expects all rows to be taken"
    with pytest.raises(RowIllegal, match=r"row 1 of .* has no body.* \(so did 1 more tasks\)"):
        writer.commit([receipt, receipt, None])
    raise_refusals([None])
