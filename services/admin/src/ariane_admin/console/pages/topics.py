"""The pages of topics, and their changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from starlette.requests import Request

from ariane.admin.v1 import client_service_pb2 as client_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1.message_pb2 import MessageType
from ariane.namesrv.v1.route_pb2 import TopicPermission
from ariane_admin.console.api import Asker, silence
from ariane_admin.console.blocks import (
    Cell,
    Fields,
    Form,
    Input,
    Page,
    Table,
    moment,
    next_page,
    number,
    size,
    to,
    yes,
)
from ariane_admin.topic_attributes import SHOWN_SINCE, retention_text

SECTION: Final = "Topics"

TYPES: Final = tuple(
    (name.removeprefix("MESSAGE_TYPE_"), word)
    for name, word in (
        ("MESSAGE_TYPE_UNSPECIFIED", "any"),
        ("MESSAGE_TYPE_NORMAL", "normal"),
        ("MESSAGE_TYPE_FIFO", "fifo"),
        ("MESSAGE_TYPE_DELAY", "delay"),
        ("MESSAGE_TYPE_TRANSACTION", "transaction"),
    )
)
PERMISSIONS: Final = (
    ("READ_WRITE", "read and write"),
    ("READ", "read"),
    ("WRITE", "write"),
    ("NONE", "none"),
)


async def topics(ask: Asker, request: Request) -> Page:
    """Topics by name, a hundred on each page."""
    query = request.query_params
    prefix, system = query.get("prefix", ""), query.get("system", "")
    answer = await ask(
        ask.api.topics.ListTopics,
        topic_pb.ListTopicsRequest(
            name_prefix=prefix, include_system=bool(system), page_token=query.get("token", "")
        ),
    )
    rows = [_row(each) for each in answer.topics]
    columns = (
        "Topic",
        "Brokers",
        "Read queues",
        "Write queues",
        "Permission",
        "Type",
        "Retention",
        "",
    )
    more = next_page(answer, "topics", prefix=prefix, system=system)
    search = Form(
        "",
        "/topics",
        (
            Input("prefix", "Name begins with", prefix, "search"),
            Input("system", "System topics too", system, "checkbox"),
        ),
        "Search",
        "get",
    )
    table = Table("", columns, rows, "No topic.", more)
    return Page("Topics", [search, *silence(answer), table, _creation()], SECTION)


async def topic(ask: Asker, request: Request) -> Page:
    """One topic: its settings by broker, its queues, and its groups."""
    name = request.path_params["topic"]
    answer = await ask(ask.api.topics.GetTopic, topic_pb.GetTopicRequest(topic=name))
    found = answer.topic
    queues = await ask(
        ask.api.topics.ListTopicQueues,
        topic_pb.ListTopicQueuesRequest(
            topic=name, page_size=100, page_token=request.query_params.get("token", "")
        ),
    )
    senders = await ask(ask.api.clients.ListProducers, client_pb.ListProducersRequest(topic=name))
    more = next_page(queues, "topics", name)
    groups = [[Cell(each, to("groups", each))] for each in found.consumer_groups]
    return Page(
        name,
        [
            *silence(answer),
            Fields(
                "",
                [
                    ("Messages kept", number(found.message_count)),
                    ("Bytes kept", size(found.size_bytes)),
                    ("The same on all brokers", yes(is_so=not found.uneven)),
                    ("Order of queues", Cell(found.queue_order or "none is fixed")),
                    ("Messages", Cell("search them", to("messages", topic=name))),
                ],
            ),
            _placements(found.placements),
            Table("Consumer groups", ("Group",), groups, "No group has an offset in it."),
            _producers(senders.producers),
            _queues(queues.queues, more),
            _sending(name),
            _update(found),
            *_purging(found),
            Form(
                "Delete this topic",
                "/topics/delete",
                (Input("topic", value=name, kind="hidden"),),
                "Delete with all messages",
                danger=True,
            ),
        ],
        SECTION,
        trail=[Cell("Topics", "/topics")],
    )


def _row(found: topic_pb.ClusterTopic) -> Sequence[Cell]:
    parts = [each.topic for each in found.placements]
    return (
        Cell(found.topic, to("topics", found.topic)),
        number(len(parts)),
        number(sum(each.read_queue_count for each in parts)),
        number(sum(each.write_queue_count for each in parts)),
        Cell(_either(_permission(each.permission) for each in parts)),
        Cell(_either(_type(each.message_type) for each in parts)),
        Cell(_either(map(retention_text, parts))),
        Cell("differs between brokers", kind="warn") if found.uneven else Cell(""),
    )


def _placements(placements: Sequence[topic_pb.TopicPlacement]) -> Table:
    rows = [
        (
            Cell(each.cluster_name),
            Cell(each.broker_name, to("cluster", each.broker_name)),
            number(each.topic.read_queue_count),
            number(each.topic.write_queue_count),
            Cell(_permission(each.topic.permission)),
            Cell(_type(each.topic.message_type)),
            Cell(retention_text(each.topic)),
            Cell(moment(each.topic, "last_store_time"), kind="time"),
            Cell(
                f"{each.topic.unread_message_count:,}",
                kind="bad" if each.topic.unread_message_count else "number",
            ),
        )
        for each in placements
    ]
    columns = (
        *("Cluster", "Broker", "Read queues", "Write queues", "Permission", "Type"),
        *("Retention", "Last stored", "Nobody reads"),
    )
    return Table("On its brokers", columns, rows)


def _producers(producers: Sequence[client_pb.ClusterProducer]) -> Table:
    rows = [
        (
            Cell(each.producer.client_id or each.producer.address, kind="code"),
            Cell(each.producer.producer_group),
            Cell(each.producer.address),
            Cell(each.producer.agent),
            Cell(f"{each.producer.messages_per_second:,.1f}", kind="number"),
            number(each.producer.message_count),
            Cell(moment(each.producer, "last_time"), kind="time"),
        )
        for each in producers
    ]
    columns = ("Client", "Producer group", "From", "Program", "Messages/s", "Messages", "Last")
    return Table("Producers", columns, rows, "Nobody has sent to it within the last hour.")


def _queues(queues: Sequence[topic_pb.TopicQueue], more: str) -> Table:
    rows = [
        (
            Cell(each.broker_name),
            number(each.bounds.queue_id),
            number(each.bounds.min_queue_offset),
            number(each.bounds.max_queue_offset),
            number(each.bounds.max_queue_offset - each.bounds.min_queue_offset),
            Cell(moment(each.bounds, "last_store_time"), kind="time"),
        )
        for each in queues
    ]
    columns = ("Broker", "Queue", "Oldest", "Next", "Messages", "Last stored")
    return Table("Queues", columns, rows, more=more)


def _creation() -> Form:
    return Form(
        "Create a topic",
        "/topics/create",
        (
            Input("topic", "Name", required=True),
            Input("queues", "Queues on each broker", "4", "number", required=True),
            Input("type", "Takes", "UNSPECIFIED", "select", TYPES),
            Input("retention", "Shows messages so long, such as 12h"),
        ),
        "Create",
    )


def _update(found: topic_pb.ClusterTopic) -> Form:
    parts = [each.topic for each in found.placements]
    reads = _either(str(each.read_queue_count) for each in parts)
    writes = _either(str(each.write_queue_count) for each in parts)
    allowed = _either(_permission(each.permission) for each in parts)
    shown = _either(map(retention_text, parts))
    return Form(
        "Change this topic",
        "/topics/update",
        (
            Input("topic", value=found.topic, kind="hidden"),
            Input("read_queues", f"Read queues, now {reads}", kind="number"),
            Input("write_queues", f"Write queues, now {writes}", kind="number"),
            Input(
                "permission",
                f"Allowed, now {allowed}",
                kind="select",
                options=(("", "as it is"), *PERMISSIONS),
            ),
            Input("retention", f"Retention, now {shown}; 0s makes it the broker's"),
        ),
        "Change",
    )


def _purging(found: topic_pb.ClusterTopic) -> Iterable[Form]:
    name = Input("topic", value=found.topic, kind="hidden")
    yield Form(
        "Purge this topic",
        "/topics/purge",
        (name, Input("before", "Only messages stored before, UTC", kind="datetime-local")),
        "Hide messages",
        danger=True,
    )
    if any(SHOWN_SINCE in each.topic.attributes for each in found.placements):
        yield Form("Undo a purge", "/topics/unpurge", (name,), "Show messages again")


def _either(texts: Iterable[str]) -> str:
    """The values of all brokers, each once."""
    return " or ".join(dict.fromkeys(texts))


def _sending(name: str) -> Form:
    return Form(
        "Send a message to this topic",
        "/messages/send",
        (
            Input("topic", value=name, kind="hidden"),
            Input("body", "Body", kind="area"),
            Input("tag", "Tag"),
            Input("keys", "Keys, separated by spaces"),
        ),
        "Send",
    )


def _permission(value: TopicPermission.ValueType) -> str:
    return TopicPermission.Name(value).removeprefix("TOPIC_PERMISSION_").lower().replace("_", " ")


def _type(value: MessageType.ValueType) -> str:
    word = MessageType.Name(value).removeprefix("MESSAGE_TYPE_").lower()
    return "any" if word == "unspecified" else word
