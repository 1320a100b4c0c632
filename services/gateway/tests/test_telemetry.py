"""The stream of a client: its settings come back, completed."""

from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb


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


async def test_clients_without_settings_beat_receive_and_leave(client, ariane_topic, group):
    beat = pb.HeartbeatRequest(group=dp.Resource(name=group), client_type=dp.PUSH_CONSUMER)
    assert (await client.call("Heartbeat", beat)).status.code == dp.OK
    leave = pb.NotifyClientTerminationRequest(group=dp.Resource(name=group))
    assert (await client.call("NotifyClientTermination", leave)).status.code == dp.OK
