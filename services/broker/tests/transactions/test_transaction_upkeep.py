"""Half messages that age, some of which cannot be stored anew."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from ariane_broker.transactions.transaction_records import half_message_of, half_properties
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_broker.transactions.upkeep import TransactionUpkeep
from ariane_record import RecordFields, encode_block
from ariane_record.layout import CRC_PROPERTY_BYTES, PROPERTIES_BYTES_MAX
from ariane_record.names import HALF_TOPIC
from ariane_servicekit import at_once
from ariane_storage import Store
from ariane_storage.testing import FixedClock, small_config
from services.broker.tests.log_side import broker_log


@pytest.fixture
def store(tmp_path):
    config = replace(small_config(segment_bytes=1 << 17), record_bytes_max=1 << 16)
    with Store.open(tmp_path / "store", config, clock=FixedClock()) as store:
        yield store


@pytest.fixture
def table():
    return TransactionTable(decision_count_max=3)


@pytest.fixture
def upkeep(store, table):
    return TransactionUpkeep(
        broker_log(store),
        table,
        now_ms=lambda: 0,
        believed_ms=lambda: 0,
        retention_ms=1000,
        is_pressed=lambda: False,
        segment_bytes=1 << 17,
    )


def half(transaction_id, padding=""):
    properties = half_properties("orders", 0, "pay", transaction_id)
    properties |= {"UNIQ_KEY": transaction_id} | ({"p": padding} if padding else {})
    return RecordFields(topic=HALF_TOPIC, body=b"paid", properties=properties)


def store_half(store, table, record):
    place = int(store.append(encode_block(HALF_TOPIC, [record]), 0).first_commit_log_offset)
    table.stored(half_message_of(store.message_at(place)))
    return place


def test_one_that_has_no_room_for_a_note_keeps_no_other_from_being_stored_anew(
    store, table, upkeep
):
    pairs = half("t-1", "x").properties.items()
    used = sum(len(name) + len(value) + 2 for name, value in pairs) + CRC_PROPERTY_BYTES
    room = 1 + PROPERTIES_BYTES_MAX - used
    first = store_half(store, table, half("t-1", "x" * room))
    second = store_half(store, table, half("t-2"))
    with capture_logs() as logs:
        assert len(at_once(upkeep.carry_forward(store.max_offset))) == 1
        at_once(upkeep.settle())
    (told,) = logs
    assert (told["event"], told["transaction_id"]) == ("half_message_not_carried_forward", "t-1")
    places = {each.transaction_id: each.commit_log_offset for each in table.pending()}
    assert places["t-1"] == first
    assert places["t-2"] > second
