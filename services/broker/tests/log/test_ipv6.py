"""A broker on IPv6: records carry both hosts, and ids find them."""

from __future__ import annotations

import asyncio
import socket
import time

import numpy as np
import pytest
from structlog.testing import capture_logs

from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1.message_pb2 import Message
from ariane_broker.naming.store_host import literal_host, store_host
from ariane_record.decoding.columns import decode_columns
from ariane_record.single.message_id import decode_offset_message_id
from ariane_servicekit import Address


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as listening:
            listening.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("count", [1, 20])
async def test_messages_of_a_broker_on_ipv6_have_both_hosts_and_ids_that_find_them(running, count):
    async with running(listen="[::1]:0") as broker:
        await broker.create_topic("flights")
        bodies = [b"body %d" % place for place in range(count)]
        await broker.store("flights", bodies)
        sent = await broker.sends.SendMessages(
            send_pb.SendMessagesRequest(
                topic="flights",
                queue_id=0,
                messages=[Message(body=b"plain")],
            )
        )
        place = sent.messages[0].position
        assert decode_offset_message_id(place.message_id).store_host == ("::1", broker.address.port)
        assert len(place.message_id) == 56
        (pulled,) = await broker.pull(("flights", 0, 0))
        columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
        assert columns.bodies() == [*bodies, b"plain"]
        for position in range(count + 1):
            message = columns.message(position)
            assert message.store_host == ("::1", broker.address.port)
            assert message.born_host[0] == "::1"
            assert message.born_host[1] > 0
            found = await broker.queries.GetMessage(
                query_pb.GetMessageRequest(message_id=columns.offset_message_id(position))
            )
            assert found.message.body == [*bodies, b"plain"][position]


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
async def test_delayed_messages_of_a_broker_on_ipv6_are_not_taken_for_damaged(running, clock):
    async def come(*bodies):
        async with asyncio.timeout(60):
            while await broker.bodies("flights", hold_s=0.02) != [*bodies]:
                pass

    def times(due_ms):
        return np.full(2, due_ms, "<i8").tobytes()

    async with running(listen="[::1]:0") as broker:
        await broker.create_topic("flights")
        # From the first turn on, what is due within a minute is kept in memory.
        await broker.store("flights", [b"a", b"b"], delivery_times_ms=times(1))
        await come(b"a", b"b")
        soon = times(time.time_ns() // 1_000_000 + 30_000)
        await broker.store("flights", [b"c", b"d"], delivery_times_ms=soon)
        with capture_logs() as logs:
            clock.advance(31)
            await come(b"a", b"b", b"c", b"d")
    assert [each for each in logs if each["event"] == "delayed_messages_wait"] == []


@pytest.mark.parametrize(
    ("spelling", "stored"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("2001:DB8:0:0::7", "2001:db8::7"),
        ("fe80::1%eth0", "fe80::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104 - an example, nothing listens.
        ("::", "127.0.0.1"),
    ],
)
def test_hosts_are_stored_as_they_are_read_back(spelling, stored):
    assert literal_host(Address(spelling, 7)) == (stored, 7)
    assert store_host(Address(spelling, 7)) == (stored, 7)


def test_a_name_has_no_literal_host():
    assert literal_host(Address("localhost", 7)) is None
    assert store_host(Address("localhost", 7)) == ("127.0.0.1", 7)
