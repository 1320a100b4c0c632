"""Whatever becomes of a call, its sender gets it back once: else the broker would get no others."""

import asyncio

import grpc
import pytest

from ariane_sdk import Message, Producer, ProducerSettings, errors
from ariane_sdk.producer.sending.append_calls import AppendCalls

SETTINGS = ProducerSettings(repeat_delay_s_min=0.001, repeat_delay_s_max=0.002)
WITHDRAWN = "withdrawn"
UNREADABLE = "unreadable"


def refused(make_status):
    return make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_DRAINING")


def illegal(make_status):
    return [make_status(grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE_ILLEGAL")]


FATES = {
    "stored": lambda _: "store",
    "a batch is refused for good": illegal,
    "the call is refused": refused,
    "the stream breaks": lambda _: grpc.StatusCode.UNAVAILABLE,
    "too few results": lambda _: UNREADABLE,
    "encoding fails": None,
}


@pytest.mark.parametrize("fate", FATES)
async def test_a_call_comes_back_once(world, make_status, monkeypatch, fate):
    broker = world.brokers["broker-a"]
    sent, over = [], []
    send = AppendCalls.send

    def send_seen(calls, call):
        sent.append(call)
        give_back = call.over
        call.over = lambda each: (over.append(each), give_back(each))
        send(calls, call)

    def fail(*_):
        monkeypatch.undo()
        monkeypatch.setattr(AppendCalls, "send", send_seen)
        raise ValueError("cannot be encoded")

    monkeypatch.setattr(AppendCalls, "send", send_seen)
    if FATES[fate] is None:
        monkeypatch.setattr("ariane_sdk.producer.sending.append_calls.encode_rows", fail)
    elif (step := FATES[fate](make_status)) == UNREADABLE:
        broker.twist = lambda answer: answer.table_result.ClearField("first_queue_offsets")
    else:
        broker.script.append(step)
    async with Producer(world.name_servers, settings=SETTINGS) as producer:
        outcomes = await asyncio.gather(
            producer.send(Message("orders", b"a")), return_exceptions=True
        )
        broker.twist = lambda _: None
        await producer.send(Message("orders", b"b"))

        assert over == sent
        assert len(sent) >= 2
        (sender,) = producer._sending.senders.values()
        assert sender.idle
    repeated = {"stored", "the call is refused", "the stream breaks"}
    assert isinstance(outcomes[0], errors.SendError) == (fate not in repeated)
