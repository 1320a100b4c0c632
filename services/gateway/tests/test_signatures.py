"""Signed calls: by known keys only, in every form that a client writes, and not too old."""

import asyncio
import hmac
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from google.protobuf.message_factory import GetMessageClass
from grpc.aio import AioRpcError

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb
from ariane_gateway import app
from ariane_gateway.access_keys import AccessKey
from ariane_gateway.rpc.door import Door
from ariane_gateway.rpc.signature import SignatureRefused, signer_of
from ariane_servicekit import StartRefused
from ariane_servicekit.security.identity.identify import Identifier
from ariane_wire import Identity
from services.gateway.tests.test_settling import change, forward

NOW = datetime(2026, 11, 29, 14, 30, tzinfo=UTC)
KEYS = {"orders": AccessKey("orders", "secret-1"), "audit": AccessKey("auditor", "secret-2")}


def compact(moment):
    return moment.strftime("%Y%m%dT%H%M%SZ")


def signed(access_key="orders", secret="secret-1", date=None, upper=True):  # noqa: S107 - of a test
    date = date or compact(NOW)
    signature = hmac.digest(secret.encode(), date.encode(), "sha1").hex()
    return {
        "x-mq-date-time": date,
        "authorization": f"MQv2-HMAC-SHA1 Credential={access_key}, SignedHeaders=x-mq-date-time,"
        f" Signature={signature.upper() if upper else signature}",
    }


GOOD = [
    signed(),
    signed(upper=False),
    signed("audit", "secret-2"),
    signed("orders/cn-hangzhou/rocketmq"),
    signed(date=NOW.isoformat()),  # As the client for Rust writes it.
    signed(date=compact(NOW + timedelta(hours=14))),  # Local time, said to be UTC.
    signed(date=compact(NOW - timedelta(hours=25))),
]


@pytest.mark.parametrize("headers", GOOD)
def test_a_call_that_is_signed_is_let_in(headers):
    signer = signer_of(headers, KEYS.get, NOW)
    assert signer.user == KEYS[signer.access_key].user


WRONG = [
    ({}, "not signed"),
    ({"authorization": "Bearer a"}, "none of MQv2"),
    (signed(secret="secret-2"), "another secret"),
    (signed("nobody", ""), "not known"),
    (signed("", ""), "not known"),
    (signed(date=compact(NOW - timedelta(hours=27))), "26 hours"),
    (signed(date=compact(NOW + timedelta(hours=27))), "26 hours"),
    (signed(date="yesterday"), "no date"),
    ({**signed(), "x-mq-date-time": compact(NOW + timedelta(seconds=1))}, "another secret"),
]


@pytest.mark.parametrize(("headers", "why"), WRONG)
def test_a_call_that_is_not_signed_as_it_should_be_is_refused(headers, why):
    with pytest.raises(SignatureRefused, match=why):
        signer_of(headers, KEYS.get, NOW)


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# of the old cluster\norders:secret-1\n\naudit : secret-2 # reads only\n")
    return path


def sign(client, *arguments, **options):
    headers = signed(*arguments, date=compact(datetime.now(UTC)), **options)
    client.metadata = [*client.metadata, *headers.items()]
    return client


async def test_every_call_of_a_stranger_is_unauthorized(
    start_gateway, connect, key_file, ariane_topic, group
):
    address, _ = await start_gateway(access_keys=key_file)
    friend, stranger = sign(connect(address)), sign(connect(address), "orders", "guessed")
    await friend.send(ariane_topic, b"a teapot")
    _, (message,) = await friend.receive(ariane_topic, group)
    assert (await stranger.queues(ariane_topic)).status.code == dp.UNAUTHORIZED
    sent = await stranger.send_messages(stranger.message(ariane_topic))
    assert sent.status.code == dp.UNAUTHORIZED
    status, messages = await stranger.receive(ariane_topic, group, broker="broker-a")
    assert (status.code, messages) == (dp.UNAUTHORIZED, [])
    # What clients repeat until it is done ends for one whose key does not hold, and says why.
    for refused in (
        await stranger.ack(ariane_topic, group, message),
        await change(stranger, ariane_topic, group, message, 9),
    ):
        assert refused.status.code == dp.INVALID_RECEIPT_HANDLE
        assert "another secret" in refused.status.message
    assert (await forward(stranger, ariane_topic, group, message)).status.code == dp.OK
    stream = stranger.stub.Telemetry(metadata=stranger.metadata, timeout=20)
    await stream.write(pb.TelemetryCommand(settings=dp.Settings(publishing=dp.Publishing())))
    assert (await stream.read()).status.code == dp.UNAUTHORIZED
    assert (await friend.ack(ariane_topic, group, message)).status.code == dp.OK


TOLD = {
    **dict.fromkeys(
        (
            *("QueryRoute", "Heartbeat", "SendMessage", "QueryAssignment", "ReceiveMessage"),
            *("EndTransaction", "NotifyClientTermination", "RecallMessage"),
        ),
        "UNAUTHORIZED",
    ),
    # What their clients repeat for ever ends otherwise, see above.
    **dict.fromkeys(("AckMessage", "ChangeInvisibleDuration"), "INVALID_RECEIPT_HANDLE"),
    "ForwardMessageToDeadLetterQueue": "OK",
    **dict.fromkeys(
        ("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset", "SyncLiteSubscription"),
        "UNIMPLEMENTED",
    ),
}


async def test_every_method_of_rocketmq_asks_for_a_signature(start_gateway, connect, key_file):
    """By its descriptors: a method without a row here is one of which nobody knows who may."""
    address, _ = await start_gateway(access_keys=key_file)
    stranger = sign(connect(address), "orders", "guessed")
    told = {}
    for method in pb.DESCRIPTOR.services_by_name["MessagingService"].methods:
        if method.client_streaming:
            continue  # Telemetry alone, as above.
        request = GetMessageClass(method.input_type)()
        ask = getattr(stranger.stub, method.name)
        call = ask(request, metadata=stranger.metadata, timeout=20)
        try:
            answer = await (call.read() if method.server_streaming else call)
            told[method.name] = dp.Code.Name(answer.status.code)
        except AioRpcError as error:
            told[method.name] = error.code().name
    assert told == TOLD


async def test_a_client_id_is_that_of_one_user(start_gateway, connect, key_file):
    """Who took it would be sent what is meant for the other: half messages, say."""
    address, _ = await start_gateway(access_keys=key_file)
    friend = sign(connect(address, "shared"))
    other = sign(connect(address, "shared"), "audit", "secret-2")
    producer = pb.TelemetryCommand(settings=dp.Settings(publishing=dp.Publishing()))
    stream = friend.stub.Telemetry(metadata=friend.metadata, timeout=20)
    await stream.write(producer)
    assert (await stream.read()).status.code == dp.OK
    foreign = other.stub.Telemetry(metadata=other.metadata, timeout=20)
    await foreign.write(producer)
    assert (await foreign.read()).status.code == dp.FORBIDDEN
    for method, request in (
        ("Heartbeat", pb.HeartbeatRequest()),
        ("NotifyClientTermination", pb.NotifyClientTerminationRequest()),
    ):
        assert (await other.call(method, request)).status.code == dp.FORBIDDEN
    assert (await friend.call("Heartbeat", pb.HeartbeatRequest())).status.code == dp.OK
    stream.cancel()
    # Once its user has left, it is free.
    await friend.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    assert (await other.call("Heartbeat", pb.HeartbeatRequest())).status.code == dp.OK


async def test_a_signature_means_nothing_where_nobody_asks(client, ariane_topic):
    await sign(client, "anybody", "anything").send(ariane_topic, b"a teapot")


@pytest.mark.parametrize("asks", [False, True])
def test_a_call_proves_who_is_there_only_where_it_is_asked_for_a_signature(asks):
    identity = Identity("ipv4:10.0.0.7:40211")
    metadata = {**signed(), "x-mq-client-id": "c"}
    context = SimpleNamespace(
        identity=lambda: identity,
        invocation_metadata=metadata.items,
        peer=lambda: identity.peer,
        time_remaining=lambda: 1.0,
    )
    keys = dict(KEYS)
    known = SimpleNamespace(known=True, find=keys.get) if asks else None
    Door(known, lambda: NOW, lambda _client_id, _user: False).caller(context)
    logins = SimpleNamespace(login_of=lambda _: None)
    assert Identifier(None, logins).is_stranger(identity) is not asks
    del keys["orders"]
    assert Identifier(None, logins).is_stranger(identity)


async def test_a_file_of_keys_that_is_none_is_refused_at_the_start(start_gateway, key_file):
    key_file.write_text("orders\n")
    with pytest.raises(StartRefused, match="line 1 is no ACCESS_KEY:SECRET_KEY"):
        await start_gateway(access_keys=key_file)


async def test_what_a_lost_key_has_opened_ends(
    start_gateway, connect, key_file, ariane_topic, group, monkeypatch
):
    monkeypatch.setattr(app, "LOOK_S", 0.02)
    address, _ = await start_gateway(access_keys=key_file)
    lost, kept = sign(connect(address)), sign(connect(address), "audit", "secret-2")
    held, streams = [], []
    for client in (lost, kept):
        broker = (await client.queues(ariane_topic)).message_queues[0].broker.name
        request = client.receive_request(ariane_topic, group, broker, hold_s=20)
        held.append(client.stub.ReceiveMessage(request, metadata=client.metadata, timeout=30))
        streams.append(client.stub.Telemetry(metadata=client.metadata, timeout=30))
        producer = dp.Settings(publishing=dp.Publishing())
        await streams[-1].write(pb.TelemetryCommand(settings=producer))
        await streams[-1].read()
    reading = asyncio.create_task(held[0].read())
    key_file.write_text("audit:secret-2\n")
    for ended in (reading, streams[0].read()):
        with pytest.raises(AioRpcError, match="the access key holds no more"):
            await ended
    await kept.send(ariane_topic, b"a teapot")
    assert (await held[1].read()).status.code == dp.OK
    await streams[1].write(pb.TelemetryCommand(settings=producer))
    assert (await streams[1].read()).status.code == dp.OK
