"""What one client can have a gateway keep, whatever it says."""

import asyncio
import ctypes
import gzip
import weakref
from types import SimpleNamespace

import pytest

import ariane_wire
from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb
from apache.rocketmq.v2.service_pb2_grpc import MessagingServiceStub
from ariane_gateway.app import GatewayApp
from ariane_gateway.brokers.attachments import BYTES_TOGETHER_MAX, Attachments
from ariane_gateway.brokers.portrait import Portrait, Wanted
from ariane_gateway.brokers.questions import HowEnded
from ariane_gateway.clients.client_table import ClientTable
from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused
from ariane_gateway.rpc import commands as commands_module
from ariane_gateway.rpc.commands import Commands
from ariane_gateway.rpc.telemetry import WAITING_BYTES_MAX, Telemetry, _Stream
from ariane_gateway.sending.transaction_handle import TransactionHandle
from ariane_gateway.settings import GatewaySettings
from ariane_servicekit import Address, serving
from services.gateway.tests.test_telemetry import settings_of


@pytest.fixture
def clients():
    return ClientTable(lambda: 0.0, clients_max=10)


class Half:
    """A half message, of which one can see whether it is kept."""


def test_a_question_that_waits_for_its_answer_keeps_no_message(clients, monkeypatch):
    monkeypatch.setattr(commands_module, "message_for", lambda *_: dp.Message(body=b"half"))
    client, heard, answered = clients.heard("one", "GO", "5", "10.0.0.7:1"), [], []
    clients.opens(client, heard.append)
    commands = Commands(clients, lambda: "nonce")
    commands.attachments = SimpleNamespace(
        ended=lambda *place, commit: answered.append((*place, commit))
    )
    half = Half()
    kept = weakref.ref(half)
    commands.ask(HowEnded("broker-a", "one", "T1", "orders", half))
    del half
    assert kept() is None
    assert heard[0].recover_orphaned_transaction_command.message.body == b"half"
    commands.ended(TransactionHandle("broker-a", "T1"), commit=True)
    assert answered == [("broker-a", "one", "T1", True)]


def asking(octets):
    message = dp.Message(body=bytes(octets))
    return pb.TelemetryCommand(verify_message_command=pb.VerifyMessageCommand(message=message))


async def test_what_waits_for_a_client_that_reads_nothing_has_an_end():
    stream, large, largest = _Stream(), asking(2 << 20), asking(6 << 20)
    for _ in range(64):
        stream(large)
    assert 0 < stream.waiting_bytes <= WAITING_BYTES_MAX
    while stream.waits:
        assert await stream.next_command() == large
    assert stream.waiting_bytes == 0
    # One that is larger alone goes out all the same.
    stream(largest)
    assert await stream.next_command() == largest


async def test_what_a_client_says_to_want_counts_once_its_user_may_see_the_group(clients):
    async def rules(group):
        raise Refused(Refusal.FORBIDDEN, f"nothing of {group}")

    telemetry = Telemetry(None, clients, SimpleNamespace(rules=rules), None, body_bytes_max=1)
    client = clients.heard("one", "GO", "5", "10.0.0.7:1")
    said = dp.Settings(subscription=dp.Subscription(group=dp.Resource(name="secret")))
    with pytest.raises(Refused, match="nothing of secret"):
        await telemetry._settings(said, client, "")
    assert client.consumes == {}


def portrait(number):
    wanted = tuple(Wanted(f"topic-{each}", "x" * 4096) for each in range(100))
    of_it = {"user": "", "reachable": True, "produces": (), "consumes": {"billing": wanted}}
    return Portrait(f"client-{number}", "GO", "5", "10.0.0.7:1", **of_it)


def test_no_request_about_clients_is_larger_than_brokers_take():
    """They end the stream at a larger one, which each further stream would begin with."""
    sent = []
    attachments = Attachments(None, "gateway", everybody=list, ask=None, facts=dict)
    attachments._attachments["broker-a"] = SimpleNamespace(send=sent.append)
    attachments.present(map(portrait, range(5)))
    assert [len(each.relayed_clients.present) for each in sent] == [2, 2, 1]
    assert max(each.ByteSize() for each in sent) < 1.1 * BYTES_TOGETHER_MAX
    sent.clear()
    attachments.gone(silent=[f"{number:0255d}" for number in range(9000)])
    assert sum(len(each.relayed_clients.silent) for each in sent) == 9000
    assert max(each.ByteSize() for each in sent) < 1.1 * BYTES_TOGETHER_MAX
    attachments.gone(left=["one"])
    assert list(sent[-1].relayed_clients.left) == ["one"]


def test_no_answer_of_a_client_is_larger_than_brokers_take():
    """They end the stream at a larger one, and with it go all clients of the gateway."""
    sent = []
    attachments = Attachments(None, "gateway", everybody=list, ask=None, facts=dict)
    attachments._attachments["broker-a"] = SimpleNamespace(send=sent.append)
    for stacks in ("at work\n" + "\n" * (5 << 20), "\U0001f986" * (1 << 20)):
        attachments.state("broker-a", "one", "question", {}, stacks=stacks)
    attachments.state("broker-a", "one", "question", {}, refusal="x" * (5 << 20))
    attachments.consumed("broker-a", "one", "question", consumed=None, cause="x" * (5 << 20))
    assert max(each.ByteSize() for each in sent) < 3 << 20
    assert [each.state.truncated for each in sent] == [True, True, False, False]
    assert sent[0].state.stacks[0].frames[0] == "at work"


LONG_FILTER = dp.FilterExpression(type=dp.SQL, expression="a" * 4097)


async def test_texts_that_are_kept_or_repeated_are_not_long(client, ariane_topic, group):
    status, _ = await client.receive(ariane_topic, group, filter_expression=LONG_FILTER)
    assert status.code == dp.ILLEGAL_FILTER_EXPRESSION
    status, _ = await client.receive(ariane_topic, group, attempt_id="a" * 256)
    assert status.code == dp.BAD_REQUEST
    client.endpoints.addresses.extend([dp.Address(host="h", port=1)] * 64)
    assert (await client.queues(ariane_topic)).status.code == dp.ILLEGAL_ACCESS_POINT
    del client.endpoints.addresses[1:]
    client.endpoints.addresses[0].host = "h" * (16 << 10)
    assert (await client.queues(ariane_topic)).status.code == dp.ILLEGAL_ACCESS_POINT
    resource = dp.Resource(name=ariane_topic, resource_namespace="n" * 256)
    route = await client.call("QueryRoute", pb.QueryRouteRequest(topic=resource))
    assert route.status.code == dp.ILLEGAL_TOPIC
    resource.name = group
    beat = await client.call("Heartbeat", pb.HeartbeatRequest(group=resource))
    assert beat.status.code == dp.ILLEGAL_CONSUMER_GROUP


async def test_settings_are_not_large(client, ariane_topic, group):
    entry = dp.SubscriptionEntry(topic=dp.Resource(name=ariane_topic), expression=LONG_FILTER)
    subscription = dp.Subscription(group=dp.Resource(name=group), subscriptions=[entry])
    settings = dp.Settings(subscription=subscription)
    answer = await settings_of(client, settings)
    assert answer.status.code == dp.ILLEGAL_FILTER_EXPRESSION
    settings.client_properties["a"] = "b" * (1 << 20)
    assert (await settings_of(client, settings)).status.code == dp.BAD_REQUEST


async def test_packed_bodies_of_one_call_have_room_for_one_of_the_largest(client, ariane_topic):
    packed = gzip.compress(bytes(3 << 20))
    messages = [client.message(ariane_topic, packed) for _ in range(3)]
    for message in messages:
        message.system_properties.body_encoding = dp.GZIP
    sent = await client.send_messages(*messages, client.message(ariane_topic, b"plain"))
    codes = [each.status.code for each in sent.entries]
    assert codes == [dp.OK, dp.MESSAGE_BODY_TOO_LARGE, dp.MESSAGE_BODY_TOO_LARGE, dp.OK]


async def test_nothing_stays_behind_of_clients_that_are_cut_off(
    ariane_cluster, connect, ariane_topic, group
):
    made = []

    def compose(settings, stop):
        made.append(GatewayApp(settings, stop))
        return made[-1]

    settings = GatewaySettings(
        listen=Address("127.0.0.1", 0), name_servers=ariane_cluster.name_servers, grace_s=0.1
    )
    async with serving(settings, compose) as address:
        app, waiting = made[0], []
        clients = [connect(str(address)) for _ in range(3)]
        said = dp.Settings(subscription=dp.Subscription(group=dp.Resource(name=group)))
        for client in clients:
            stream = client.stub.Telemetry(metadata=client.metadata)
            await stream.write(pb.TelemetryCommand(settings=said))
            assert (await stream.read()).status.code == dp.OK
            held = client.receive(ariane_topic, group, hold_s=20)
            waiting += (asyncio.ensure_future(held), stream)

        async def until(count):
            async with asyncio.timeout(30):
                while {app.clients.stream_count, len(app._holds)} != {count}:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

        await until(3)
        for client in clients:
            await client.channel.close()
        await until(0)
        await asyncio.gather(*waiting[::2], return_exceptions=True)
        assert (app._telemetry._reading, app._shared._lines, app._shared.leading) == (set(), {}, 0)


LIBC = ctypes.CDLL(None)


def octets_in_use():
    """What the allocator of C has given out in this process: where protobuf keeps messages."""
    said = mallinfo2()
    return said.uordblks + said.hblkhd


class MallocInfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]


def mallinfo2():
    ask = LIBC.mallinfo2
    ask.restype = MallocInfo
    return ask()


@pytest.mark.skipif(
    not hasattr(LIBC, "mallinfo2"), reason="the C library has no mallinfo2: glibc 2.33 or later"
)
async def test_idle_streams_keep_nothing_of_what_was_said(start_gateway, ariane_topic):
    address, _ = await start_gateway()
    settings = dp.Settings(publishing=dp.Publishing(topics=[dp.Resource(name=ariane_topic)]))
    settings.client_properties["large"] = "x" * (900 << 10)
    stacks = pb.ThreadStackTrace(nonce="unknown", thread_stack_trace="x" * (1 << 20))
    streams, kept = [], []
    async with ariane_wire.insecure_channel(address) as channel:
        stub = MessagingServiceStub(channel)
        for _ in range(3):
            before = octets_in_use()
            for _ in range(4):
                stream = stub.Telemetry(metadata=[("x-mq-client-id", f"idle-{len(streams)}")])
                streams.append(stream)
                # Neither the first, nor the last, nor the answer to it.
                await stream.write(pb.TelemetryCommand(thread_stack_trace=stacks))
                await stream.write(pb.TelemetryCommand(settings=settings))
                assert (await stream.read()).status.code == dp.OK
            kept.append(octets_in_use() - before)
        for stream in streams:
            stream.cancel()
    # What else runs in this process takes memory meanwhile, but hardly each time.
    assert min(kept) < 1 << 20
