"""How long a receive is held."""

import asyncio

import pytest

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb
from ariane_gateway.receiving.open_holds import OpenHolds
from ariane_gateway.receiving.receiving import Receiving
from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused
from ariane_gateway.rpc import receiving_calls
from ariane_gateway.rpc.caller import Caller
from ariane_gateway.rpc.receiving_calls import ReceivingCalls, _hold_s
from ariane_servicekit import ServiceError


def request_of(wanted_s):
    request = pb.ReceiveMessageRequest()
    if wanted_s is not None:
        request.long_polling_timeout.FromSeconds(wanted_s)
    return request


@pytest.mark.parametrize(
    ("wanted_s", "deadline_s", "held_s"),
    [
        (5, 60, 5),
        (None, 60, 20),
        (5, 5, 4.5),
        (20, 20, 18),
        (2, 2, 1.5),
        (5, 0.2, 0),
        (-5, 60, 0),
        (315_576_000_000, 60, 54),
    ],
)
def test_the_answer_leaves_a_tenth_of_the_deadline_to_travel(wanted_s, deadline_s, held_s):
    assert _hold_s(request_of(wanted_s), deadline_s) == pytest.approx(held_s)


async def test_a_refused_receive_is_held_unless_the_gateway_stops_or_its_client_does_not_wait():
    """The client in Go asks again after 20 ms: one that may not receive would never stop."""
    holds, written = OpenHolds(), []
    calls = ReceivingCalls(Receiving(None, None, holds), None, None, now_ms=lambda: 0)

    async def write(answers):
        written.extend(answer.status.code for answer in answers)

    refused = Refused(Refusal.FORBIDDEN, "he may not")
    await calls.refuse(refused, request_of(0), 60.0, write)
    assert written == [dp.FORBIDDEN]
    held = asyncio.ensure_future(calls.refuse(refused, request_of(20), 60.0, write))
    for _ in range(5):
        await asyncio.sleep(0)
    assert (len(holds), len(written)) == (1, 1)
    holds.close()
    await held
    assert written == [dp.FORBIDDEN, dp.FORBIDDEN]


class OneMessage:
    """Hands one out, and notes what comes back."""

    def __init__(self):
        self.back = []

    async def receive(self, broker_name, order, hold_s):
        return ["a delivery"]

    def give_back(self, broker_name, order, deliveries):
        self.back += deliveries


async def test_what_a_client_without_a_deadline_does_not_read_is_given_back(monkeypatch):
    monkeypatch.setattr(receiving_calls, "LATE_S", 0.01)
    receiving = OneMessage()
    calls = ReceivingCalls(receiving, None, None, now_ms=lambda: 0)
    request = request_of(0)
    request.group.name, request.message_queue.topic.name = "billing", "orders"

    async def write(_answers):
        await asyncio.Event().wait()

    with pytest.raises(ServiceError, match="takes no messages"):
        await calls.receive(request, Caller("c", "GO", "5", "10.0.0.7:1", 0.0), write)
    assert receiving.back == ["a delivery"]
