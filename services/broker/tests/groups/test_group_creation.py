"""Groups are made, with defaults for what a request does not name."""

from ariane.broker.v1 import group_service_pb2 as group_pb


async def test_a_group_has_the_defaults_of_what_its_request_does_not_name(broker):
    named = group_pb.ConsumerGroup(consumer_group="named", consume_enabled=False, attempts_max=0)
    for wanted in (group_pb.ConsumerGroup(consumer_group="bare"), named):
        await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=wanted))
    bare, named = [
        (
            await broker.groups.GetConsumerGroup(
                group_pb.GetConsumerGroupRequest(consumer_group=name)
            )
        ).group
        for name in ("bare", "named")
    ]
    assert (bare.consume_enabled, bare.broadcast_enabled, bare.attempts_max) == (True, True, 16)
    assert (named.consume_enabled, named.broadcast_enabled, named.attempts_max) == (False, True, 0)
