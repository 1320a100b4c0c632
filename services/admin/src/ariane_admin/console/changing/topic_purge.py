"""The console's purge of a topic, and its undoing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane_admin.console.api import Asker
from ariane_admin.console.blocks import Block, Cell, Notice, Table, moment, number, to
from ariane_admin.console.changing.change import Change, Given, not_on
from ariane_admin.console.pages.messages import time_in
from ariane_admin.counted import counted


def _request(given: Given) -> topic_pb.PurgeTopicRequest:
    before = time_in(given.get("before", ""))
    return topic_pb.PurgeTopicRequest(topic=given["topic"], before=before)


async def _preview(ask: Asker, given: Given) -> Sequence[Block]:
    request = _request(given)
    request.validate_only = True
    answer = await ask(ask.api.topics.PurgeTopic, request)
    rows = [
        (
            Cell(each.broker_name),
            Cell(moment(each, "before"), kind="time"),
            number(each.message_count),
        )
        for each in answer.hidden
    ]
    return (
        Notice(f"{_count(answer)} would be hidden.{not_on(answer.outcomes)}"),
        Table("What would be hidden", ("Broker", "Stored before", "Messages"), rows),
    )


async def _purge(ask: Asker, given: Given) -> str:
    answer = await ask(ask.api.topics.PurgeTopic, _request(given))
    text = f"Within 10 s, {_count(answer)} of topic {given['topic']} will be hidden."
    return f"{text}{not_on(answer.outcomes)}"


async def _undo(ask: Asker, given: Given) -> str:
    request = topic_pb.PurgeTopicRequest(topic=given["topic"], undo=True)
    answer = await ask(ask.api.topics.PurgeTopic, request)
    text = f"Topic {given['topic']} shows all that its brokers still have within 10 s."
    return f"{text}{not_on(answer.outcomes)}"


def _count(answer: topic_pb.PurgeTopicResponse) -> str:
    return counted(sum(each.message_count for each in answer.hidden), "message")


def _topic_page(given: Given) -> str:
    return to("topics", given["topic"])


PURGE_CHANGES: Final[Mapping[str, Change]] = {
    "/topics/purge": Change(
        "Hide the messages that topic {topic} has from all its consumers? Until their bytes are"
        " deleted, its page can show them again.",
        _purge,
        _topic_page,
        danger=True,
        preview=_preview,
    ),
    "/topics/unpurge": Change(
        "Show the messages of topic {topic} again that were hidden?", _undo, _topic_page
    ),
}
"""Purges, by the path of their forms."""
