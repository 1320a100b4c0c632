"""SQL92 conditions in the broker: every way of reading brings what the reference judge wants."""

import asyncio

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_broker.filters.expression import FilterExpression, FilterLanguage
from ariane_broker.filters.filter import filter_for
from ariane_record.decoding.columns import decode_columns
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ServiceError
from ariane_sql92 import ConditionInvalid, compile_condition
from ariane_sql92.testing import condition_texts, judge_plainly, property_maps
from ariane_testkit.append_rows import row_of

MESSAGE_COUNT = 150
CONDITION_COUNT = 40


def is_condition(text):
    try:
        compile_condition(text)
    except ConditionInvalid:
        return False
    return True


def drawn(strategy, count):
    """So many examples, the same in each run."""
    examples = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(example):
        examples.append(example)

    draw()
    return examples


def sql(text):
    return subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_SQL92, text=text)


def subscription(text, topic="orders"):
    return subscription_pb.Subscription(topic=topic, filter=sql(text))


async def store(broker, messages):
    """Messages, said as their properties; the body of each is its number."""
    encoder = BlockEncoder("orders", size_bytes_max=8 << 20)
    for number, properties in enumerate(messages):
        own = {name: value for name, value in properties.items() if name != "TAGS"}
        tag = properties.get("TAGS", "")
        encoder.add(b"%d" % number, tag=tag, properties=own, born_timestamp_ms=1)
    (result,) = await broker.append(row_of(encoder.finish()))
    assert result.error is None, result.error


async def pulled_records(broker, text, read_bodies):
    found, position = [], 0
    while position < MESSAGE_COUNT:
        (pulled,) = await broker.pull(
            ("orders", 0, position), subscriptions=[subscription(text)], record_count_max=40
        )
        found += read_bodies(pulled)
        assert pulled.next_queue_offset > position
        position = pulled.next_queue_offset
    return found


async def pulled_messages(broker, text):
    found, position = [], 0
    while position < MESSAGE_COUNT:
        request = pull_pb.PullMessagesRequest(
            consumer_group="group",
            positions=[pull_pb.PullPosition(topic="orders", queue_id=0, queue_offset=position)],
            subscriptions=[subscription(text)],
        )
        (pulled,) = (await broker.pulls.PullMessages(request)).queues
        found += [message.body for message in pulled.messages]
        assert pulled.next_queue_offset > position
        position = pulled.next_queue_offset
    return found


async def read_range(broker, text):
    request = pull_pb.PullRangeRequest(
        topic="orders",
        queue_id=0,
        begin_queue_offset=0,
        end_queue_offset=MESSAGE_COUNT,
        filter=sql(text),
    )
    found = []
    async for chunk in broker.pulls.PullRange(request):
        columns = decode_columns(chunk.records, np.frombuffer(chunk.record_sizes, "<i4"))
        found += columns.bodies()
    return found


async def test_every_way_of_reading_brings_what_the_reference_judge_wants(broker, read_bodies):
    # A tag and a property have their own rules of what they may hold.
    plain = property_maps().filter(lambda properties: " 5 " not in properties.values())
    messages = drawn(plain, MESSAGE_COUNT)
    assert len(messages) > MESSAGE_COUNT // 2
    messages += [{}] * (MESSAGE_COUNT - len(messages))
    await store(broker, messages)
    bodies = [b"%d" % number for number in range(MESSAGE_COUNT)]
    some = 0
    for text in drawn(condition_texts().filter(is_condition), CONDITION_COUNT):
        wanted = [
            body
            for body, message in zip(bodies, messages, strict=True)
            if judge_plainly(text, message)
        ]
        some += 0 < len(wanted) < MESSAGE_COUNT
        assert await pulled_records(broker, text, read_bodies) == wanted, text
        assert await pulled_messages(broker, text) == wanted, text
        assert await read_range(broker, text) == wanted, text
    assert some > CONDITION_COUNT // 4


async def test_a_held_pull_waits_for_a_message_that_matches(broker, read_bodies):
    await store(broker, [{"a": "1"}])
    pull = asyncio.ensure_future(
        broker.pull(("orders", 0, 1), subscriptions=[subscription("a > 5")], hold_s=25)
    )
    for value in ("2", "x", "7"):
        await store(broker, [{"a": value}])
    position, found = 1, []
    while not found:
        (pulled,) = await pull
        found, position = read_bodies(pulled), pulled.next_queue_offset
        pull = asyncio.ensure_future(
            broker.pull(("orders", 0, position), subscriptions=[subscription("a > 5")], hold_s=0)
        )
    await pull
    assert found == [b"0"]
    assert position == 4


def hello(client_id, text):
    membership = client_pb.Membership(consumer_group="group", subscriptions=[subscription(text)])
    return client_pb.AttachRequest(
        hello=client_pb.ClientHello(client_id=client_id, memberships=[membership])
    )


async def test_a_condition_that_is_none_is_refused_at_the_subscription(broker, refused):
    await broker.create_topic("orders")
    call = broker.clients.Attach(iter([hello("one", "a > 5 AND b LIKE 'x'")]))
    failure = await refused(call.read())
    assert (failure.reason, failure.code) == ("FILTER_EXPRESSION_INVALID", "INVALID_ARGUMENT")
    assert failure.metadata["position"] == "12"


def test_one_condition_is_read_once():
    expression = FilterExpression(FilterLanguage.SQL92, "once = 'only'")
    assert filter_for(expression) is filter_for(expression)
    assert filter_for(expression).looks_per_record


@pytest.mark.parametrize(
    ("text", "position"), [("", 0), ("a = ", 4), ("a" * 5000, 4096), ("NOT " * 60 + "a", 240)]
)
def test_an_invalid_expression_is_an_error_with_its_place(text, position):
    with pytest.raises(ServiceError) as raised:
        filter_for(FilterExpression(FilterLanguage.SQL92, text))
    assert raised.value.row.name == "FILTER_EXPRESSION_INVALID"
    assert raised.value.metadata["position"] == str(position)
