"""What rows of a table say beside their records: delays, demands, half messages."""

import numpy as np
import pytest

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.common.v1.message_pb2 import (
    ACKNOWLEDGED_LEVEL_MEMORY,
    ACKNOWLEDGED_LEVEL_REPLICATED,
)
from ariane_broker.transactions.halves import Halves
from ariane_record import ProducerSequence, decode_record
from ariane_testkit.append_rows import rows_request
from services.broker.tests.append_side import int32s, wire

HALF_TOPIC, TIMER_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer"
LEVEL_TOPIC = "SCHEDULE_TOPIC_XXXX"


def int64s(numbers):
    return np.array(list(numbers), "<i8").tobytes()


def column(raw):
    return np.frombuffer(raw, "<i8").tolist()


async def answered(broker, rows, **columns):
    answer = await broker.sends.AppendRecords(rows_request(rows, **columns))
    return answer.table_result


async def test_each_row_goes_its_own_way(broker, reason_of, tmp_path):
    log = tmp_path / "store" / "commitlog"
    await broker.create_topic("orders", 2)
    now_ms = (await broker.store("orders", [b"before"])).store_time.ToMilliseconds()
    rows = [
        wire("orders", 0, [b"now"]),
        wire("orders", 1, [b"level"]),
        wire("orders", 0, [b"then", b"later"]),
        wire("orders", 1, [b"after"]),
        wire("orders", 0, [b"demanding"]),
        wire("orders", 1, [b"half"]),
        wire("orders", 9, [b"nowhere"]),
    ]
    times = [0, 0, now_ms + 3_600_000, now_ms + 7_200_000, 0, 0, 0, 0]
    result = await answered(
        broker,
        rows,
        delay_levels=bytes([0, 18, 0, 0, 0, 0, 0]),
        delivery_times_ms=int64s(times),
        delays_ms=int64s([0, 0, 0, 0, 3_600_000, 0, 0, 0]),
        required_levels=bytes([0, 0, 0, 0, ACKNOWLEDGED_LEVEL_REPLICATED, 0, 0]),
        half_groups=["", "", "", "", "", "pay", ""],
    )
    refused = {row.row: reason_of(row.error) for row in result.rows if row.HasField("error")}
    assert refused == {4: "TOO_FEW_IN_SYNC", 6: "QUEUE_NOT_FOUND"}
    assert result.acknowledged_level == ACKNOWLEDGED_LEVEL_MEMORY
    assert column(result.first_queue_offsets) == [1, 0, 0, 2, -1, 0, -1]
    firsts, places = column(result.first_commit_log_offsets), column(result.commit_log_offsets)
    assert [firsts[4], firsts[6], places[5], places[7]] == [-1] * 4
    assert [places[row] for row in (0, 1, 2, 4, 6)] == [firsts[row] for row in (0, 1, 2, 3, 5)]
    assert await broker.bodies("orders", 0) == [b"before", b"now"]
    assert await broker.bodies("orders", 1) == []
    assert stored_at(log, [place for place in places if place >= 0]) == [
        ("orders", b"now"),
        (LEVEL_TOPIC, b"level"),
        (TIMER_TOPIC, b"then"),
        (TIMER_TOPIC, b"later"),
        (TIMER_TOPIC, b"after"),
        (HALF_TOPIC, b"half"),
    ]


def stored_at(log, places):
    """Topic and body of the record at each place of the log."""
    raw = (log / f"{0:020}").read_bytes()
    sizes = [int.from_bytes(raw[place : place + 4]) for place in places]
    found = [
        decode_record(raw[place : place + size]) for place, size in zip(places, sizes, strict=True)
    ]
    return [(record.topic, record.body) for record in found]


@pytest.mark.parametrize(
    "columns",
    [
        {"delay_levels": b"\1", "delivery_times_ms": int64s([5])},
        {"delivery_times_ms": int64s([5]), "delays_ms": int64s([5])},
        {"delay_levels": b"\1\1"},
        {"delays_ms": int64s([5, 5])},
        {"required_levels": b"\1\1"},
        {"in_sync_mins": b"\1"},
        {"half_groups": ["pay", "pay"]},
        {"record_crc32s": b"1234" * 2},
    ],
)
async def test_columns_that_do_not_fit_together_are_refused(broker, reason_of, columns):
    await broker.create_topic("orders")
    result = await answered(broker, [wire("orders", 0, [b"x"])], **columns)
    assert [reason_of(row.error) for row in result.rows] == ["BLOCK_CORRUPTED"]
    assert await broker.bodies("orders") == []


async def test_a_half_message_waits_for_its_outcome_and_is_stored_once(broker, reason_of):
    await broker.create_topic("orders", 2)
    half = wire("orders", 1, [b"paid"])
    first = await answered(broker, [half], half_groups=["pay"])
    again = await answered(broker, [half], half_groups=["pay"])
    assert [row.duplicate for row in again.rows] == [True]
    assert again.first_commit_log_offsets == first.first_commit_log_offsets
    assert again.rows[0].store_time == first.store_time
    assert await broker.bodies("orders", 1) == []
    ended = await broker.end_transaction("id", client_pb.TRANSACTION_OUTCOME_COMMIT)
    assert ended.outcome == client_pb.TRANSACTION_OUTCOME_COMMIT
    assert await broker.bodies("orders", 1) == [b"paid"]
    late = await answered(broker, [half], half_groups=["pay"])
    assert reason_of(late.rows[0].error) == "TRANSACTION_DECIDED"
    (pulled,) = await broker.pull(("orders", 1, 0))
    committed = decode_record(pulled.records)
    assert (committed.keys, committed.unique_id) == (("k",), "id")


async def test_neighbouring_half_messages_are_stored_and_refused_each_for_itself(broker, reason_of):
    await broker.create_topic("orders", 2)
    rows = [wire("orders", 0, [b"x"], unique_id=unique_id) for unique_id in "abcde"]
    rows[1] = wire("orders", 0, [b"x", b"y"], unique_id="b")
    rows[2] = wire("orders", 9, [b"x"], unique_id="c")
    rows[3] = wire("orders", 0, [b"x"], unique_id="d", properties={"PGROUP": "others"})
    rows += [rows[0], wire("orders", 1, [b"plain"]), wire("orders", 1, [b"x"], unique_id="f")]
    groups = ["pay"] * 4 + ["shop", "shop", "", "pay"]
    result = await answered(broker, rows, half_groups=groups)
    refused = {row.row: reason_of(row.error) for row in result.rows if row.HasField("error")}
    assert refused == {
        1: "MESSAGE_ILLEGAL",
        2: "QUEUE_NOT_FOUND",
        3: "MESSAGE_ILLEGAL",
        5: "TRANSACTION_FOREIGN",
    }
    assert column(result.first_queue_offsets) == [0, -1, -1, -1, 1, -1, 0, 2]
    listed = await broker.transactions.ListHalfMessages(transaction_pb.ListHalfMessagesRequest())
    found = [(half.unique_id, half.producer_group) for half in listed.half_messages]
    assert found == [("a", "pay"), ("e", "shop"), ("f", "pay")]
    assert await broker.bodies("orders", 1) == [b"plain"]


async def test_sound_half_messages_beside_a_bad_one_are_stored_together(
    broker, reason_of, monkeypatch
):
    stored, store_rows = [], Halves.store_rows

    def counted(self, rows, born_host):
        stored.append(len(rows))
        return store_rows(self, rows, born_host)

    monkeypatch.setattr(Halves, "store_rows", counted)
    await broker.create_topic("orders", 2)
    rows = [wire("orders", 0, [b"x"], unique_id=f"t-{number}") for number in range(10)]
    rows[3] = wire("orders", 0, [b"x", b"y"], unique_id="b")
    result = await answered(broker, rows, half_groups=["pay"] * 10)
    refused = {row.row: reason_of(row.error) for row in result.rows if row.HasField("error")}
    assert refused == {3: "MESSAGE_ILLEGAL"}
    assert column(result.first_queue_offsets) == [0, 1, 2, -1, *range(3, 9)]
    assert stored == [3, 6]


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        (wire("orders", 0, [b"x", b"y"]), {}),
        (wire("orders", 0, [b"x"]), {"delay_levels": b"\1"}),
        (wire("orders", 0, [b"x"], ProducerSequence(7, 0, 0)), {}),
        (wire("orders", 0, [b"x"], properties={"TRAN_OUTCOME": "COMMIT"}), {}),
        (wire("orders", 0, [b"x"], properties={"REAL_TOPIC": "bills"}), {}),
    ],
)
async def test_a_row_that_cannot_be_a_half_message_is_refused(broker, reason_of, row, columns):
    await broker.create_topic("orders")
    result = await answered(broker, [row], half_groups=["pay"], **columns)
    assert [reason_of(each.error) for each in result.rows] == ["MESSAGE_ILLEGAL"]
    assert not (
        await broker.transactions.ListHalfMessages(transaction_pb.ListHalfMessagesRequest())
    ).half_messages


async def test_a_row_in_no_stream_is_stored_as_often_as_it_comes(broker):
    await broker.create_topic("orders", 2)
    streamed = wire("orders", 0, [b"s"], ProducerSequence(7, 0, 0))
    free = wire("orders", 1, [b"f"], ProducerSequence(7, 0, -1))
    plain = wire("orders", 1, [b"f"])
    for name in ("records", "record_sizes", "records_crc32"):
        setattr(free, name, getattr(plain, name))
    for _ in range(2):
        result = await answered(broker, [streamed, free])
    assert [(row.row, row.duplicate) for row in result.rows] == [(0, True)]
    assert await broker.bodies("orders", 0) == [b"s"]
    assert await broker.bodies("orders", 1) == [b"f", b"f"]


async def test_sums_of_records_that_come_along_are_compared(broker, reason_of):
    await broker.create_topic("orders")
    row = wire("orders", 0, [b"x"])
    result = await answered(broker, [row], record_crc32s=int32s([1]))
    assert [reason_of(each.error) for each in result.rows] == ["BLOCK_CORRUPTED"]
