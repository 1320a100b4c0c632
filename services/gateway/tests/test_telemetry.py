"""The stream of a client: its settings come back, completed."""

import socket

import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode
from grpc.aio import AioRpcError

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb
from ariane.broker.v1.group_service_pb2 import DelayTable, RetryPolicy
from ariane_gateway.brokers import group_calls
from ariane_gateway.brokers.acting import USER
from ariane_gateway.brokers.cluster import Cluster
from ariane_gateway.brokers.seen_topics import SeenTopics
from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused
from ariane_sdk.net.connections import Connections


async def settings_of(client, settings):
    stream = client.stub.Telemetry(metadata=client.metadata, timeout=20)
    await stream.write(pb.TelemetryCommand(settings=settings))
    answer = await stream.read()
    await stream.done_writing()
    return answer


async def test_a_producer_is_told_how_to_repeat_and_how_much_to_send(client, ariane_topic):
    said = dp.Settings(
        client_type=dp.PRODUCER, publishing=dp.Publishing(topics=[dp.Resource(name=ariane_topic)])
    )
    answer = await settings_of(client, said)
    assert answer.status.code == dp.OK
    told = answer.settings
    assert (told.client_type, list(told.publishing.topics)) == (
        dp.PRODUCER,
        list(said.publishing.topics),
    )
    assert (told.publishing.max_body_size, told.publishing.validate_message_type) == (4 << 20, True)
    assert told.backoff_policy.WhichOneof("strategy") == "exponential_backoff"
    assert told.HasField("metric")


async def test_a_consumer_is_told_how_its_group_repeats(client, group):
    subscription = dp.Subscription(group=dp.Resource(name=group), fifo=True)
    answer = await settings_of(
        client, dp.Settings(client_type=dp.PUSH_CONSUMER, subscription=subscription)
    )
    told = answer.settings
    assert told.subscription.group.name == group
    assert not told.subscription.fifo  # The group says so, never the client.
    assert told.subscription.receive_batch_size == 32
    assert told.subscription.long_polling_timeout.seconds == 20
    assert told.backoff_policy.max_attempts == 17
    assert told.backoff_policy.customized_backoff.next[0].seconds == 10


async def test_no_consumer_is_told_to_hide_a_message_for_longer_than_it_may(client, make_group):
    day = DelayTable(delays=[Duration(seconds=86_400)])
    group = await make_group(retry_policy=RetryPolicy(table=day))
    subscription = dp.Subscription(group=dp.Resource(name=group))
    answer = await settings_of(
        client, dp.Settings(client_type=dp.PUSH_CONSUMER, subscription=subscription)
    )
    # It would repeat a refused ChangeInvisibleDuration for ever.
    (delay,) = answer.settings.backoff_policy.customized_backoff.next
    assert delay.ToSeconds() == 12 * 3600


async def test_clients_without_settings_beat_receive_and_leave(client, ariane_topic, group):
    beat = pb.HeartbeatRequest(group=dp.Resource(name=group), client_type=dp.PUSH_CONSUMER)
    assert (await client.call("Heartbeat", beat)).status.code == dp.OK
    leave = pb.NotifyClientTerminationRequest(group=dp.Resource(name=group))
    assert (await client.call("NotifyClientTermination", leave)).status.code == dp.OK


async def test_a_stream_that_begins_with_settings_that_are_refused_ends(client, ariane_topic):
    """A client that starts waits for settings: the one for Go until its stream ends."""
    refused = dp.Settings(subscription=dp.Subscription(group=dp.Resource(name="a b")))
    stream = client.stub.Telemetry(metadata=client.metadata, timeout=20)
    await stream.write(pb.TelemetryCommand(settings=refused))
    assert (await stream.read()).status.code == dp.ILLEGAL_CONSUMER_GROUP
    with pytest.raises(AioRpcError, match="group 'a b'") as ended:
        await stream.read()
    assert ended.value.code() is StatusCode.INVALID_ARGUMENT
    # One whose client has begun goes on.
    producer = dp.Settings(publishing=dp.Publishing(topics=[dp.Resource(name=ariane_topic)]))
    stream = client.stub.Telemetry(metadata=client.metadata, timeout=20)
    for settings, code in (
        (producer, dp.OK),
        (refused, dp.ILLEGAL_CONSUMER_GROUP),
        (producer, dp.OK),
    ):
        await stream.write(pb.TelemetryCommand(settings=settings))
        assert (await stream.read()).status.code == code


@pytest.fixture
def silent_broker():
    """The address of a broker that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        yield f"{host}:{port}"


@pytest.fixture
def have_brokers(monkeypatch):
    """Have gateways find brokers at these addresses; of several lists the last one stays."""

    def have(*lists):
        left = list(lists)

        async def primaries(_):
            addresses = left.pop(0) if len(left) > 1 else left[0]
            return {f"broker-{number}": each for number, each in enumerate(addresses)}

        monkeypatch.setattr(Cluster, "primaries", primaries)

    return have


@pytest.mark.parametrize("which", ["the first of two", "the only one, at first"])
async def test_a_consumer_has_its_settings_although_a_broker_did_not_answer(
    start_gateway, connect, ariane_cluster, silent_broker, have_brokers, group, which
):
    address, _ = await start_gateway(call_timeout_s=0.2)
    real = ariane_cluster.broker_address
    first = [silent_broker, real] if which == "the first of two" else [silent_broker]
    have_brokers(first, [real])
    subscription = dp.Subscription(group=dp.Resource(name=group))
    answer = await settings_of(
        connect(address), dp.Settings(client_type=dp.PUSH_CONSUMER, subscription=subscription)
    )
    assert (answer.status.code, answer.settings.subscription.receive_batch_size) == (dp.OK, 32)


async def test_a_broker_that_did_not_answer_is_asked_last(
    ariane_cluster, silent_broker, have_brokers, monkeypatch
):
    """Who starts asks which topics his user may see, and waits for three seconds."""
    cluster = Cluster([ariane_cluster.name_servers], timeout_s=0.2, tls=False)
    cluster.open()
    have_brokers([silent_broker, ariane_cluster.broker_address])
    seen, asked, topics = SeenTopics(cluster), [], Connections.topics
    monkeypatch.setattr(Connections, "topics", lambda its, at: asked.append(at) or topics(its, at))
    USER.set("anna")
    for topic in ("orders", "bills"):
        await seen.check(topic)
    await cluster.close()
    real = ariane_cluster.broker_address
    assert asked == [silent_broker, real, real]


async def test_what_brokers_said_of_a_group_holds_while_none_of_them_answers(
    start_gateway,
    connect,
    ariane_cluster,
    make_ariane_topic,
    make_group,
    silent_broker,
    have_brokers,
    monkeypatch,
):
    topic = make_ariane_topic(queue_count=2, fifo=True)
    group = await make_group(receive_in_order=True)
    address, _ = await start_gateway(call_timeout_s=0.2)
    client = connect(address)
    request = pb.QueryAssignmentRequest(
        topic=dp.Resource(name=topic), group=dp.Resource(name=group)
    )
    monkeypatch.setattr(group_calls, "KEPT_S", 0.0)
    for brokers in ([ariane_cluster.broker_address], [silent_broker]):
        have_brokers(brokers)
        answer = await client.call("QueryAssignment", request)
        assert answer.status.code == dp.OK, answer
        assert [each.message_queue.id for each in answer.assignments] == [0, 1]


async def test_a_route_is_told_once_a_name_server_is_back(client, ariane_topic, monkeypatch):
    route, refused = Cluster.route, iter([Refusal.UNAVAILABLE, Refusal.NO_ANSWER])

    async def later(cluster, topic):
        for kind in refused:
            raise Refused(kind, "no name server answers")
        return await route(cluster, topic)

    monkeypatch.setattr(Cluster, "route", later)
    answer = await client.queues(ariane_topic)
    assert answer.status.code == dp.OK, answer
    assert answer.message_queues
