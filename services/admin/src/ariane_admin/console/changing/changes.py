"""The changes of the console: each asks first, calls the API, and returns a message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from google.protobuf.json_format import ParseDict, ParseError

from ariane.admin.v1 import cluster_service_pb2 as cluster_pb
from ariane.admin.v1 import dead_letter_service_pb2 as letter_pb
from ariane.admin.v1 import definition_service_pb2 as definition_pb
from ariane.admin.v1 import delayed_message_service_pb2 as delayed_pb
from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.admin.v1 import setting_service_pb2 as setting_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1 import transaction_service_pb2 as transaction_pb
from ariane.broker.v1.client_question_pb2 import (
    CONSUME_OUTCOME_CONSUMED,
    CONSUME_OUTCOME_RAISED,
    CONSUME_OUTCOME_REFUSED,
    CONSUME_OUTCOME_RETRY,
)
from ariane.broker.v1.client_service_pb2 import TransactionOutcome
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane.common.v1.message_pb2 import Message, MessageType
from ariane.namesrv.v1.route_pb2 import TopicPermission
from ariane_admin.asking.changing.definition_parts import parts_of
from ariane_admin.console.api import Asker
from ariane_admin.console.blocks import Notice, to
from ariane_admin.console.changing.broker_forgetting import FORGETTING_CHANGES
from ariane_admin.console.changing.change import (
    Change,
    Given,
    NotDone,
    Unfinished,
    WronglyFilled,
    not_on,
    number_in,
)
from ariane_admin.console.changing.group_changes import GROUP_CHANGES
from ariane_admin.console.changing.topic_purge import PURGE_CHANGES
from ariane_admin.console.pages.filters import FILTER_CHANGES
from ariane_admin.console.pages.limits import LIMIT_CHANGES
from ariane_admin.console.pages.messages import letter_query
from ariane_admin.console.pages.overview import or_failure
from ariane_admin.console.pages.replicas import REPLICA_CHANGES
from ariane_admin.counted import counted
from ariane_admin.group_texts import gets_returned
from ariane_admin.times import length_of_time
from ariane_admin.topic_attributes import retention_attribute

_ENDS: Final = {
    CONSUME_OUTCOME_RETRY: "failed and would have it again",
    CONSUME_OUTCOME_RAISED: "raised an error",
    CONSUME_OUTCOME_REFUSED: "refuses",
}


async def _create_topic(ask: Asker, given: Given) -> str:
    queues = number_in(given, "queues")
    topic = Topic(
        topic=given["topic"],
        read_queue_count=queues,
        write_queue_count=queues,
        message_type=MessageType.Value(f"MESSAGE_TYPE_{given.get('type', 'UNSPECIFIED')}"),
        attributes=_retention_in(given),
    )
    answer = await ask(ask.api.topics.CreateTopic, topic_pb.CreateTopicRequest(topic=topic))
    return f"Topic {given['topic']} is there.{not_on(answer.outcomes)}"


async def _update_topic(ask: Asker, given: Given) -> str:
    reads, writes, permission = map(given.get, ("read_queues", "write_queues", "permission"))
    attributes = _retention_in(given)
    if not (reads or writes or permission or attributes):
        raise WronglyFilled("Say what is to change.")
    request = topic_pb.UpdateTopicRequest(
        topic=given["topic"],
        read_queue_count=number_in(given, "read_queues") if reads else None,
        write_queue_count=number_in(given, "write_queues") if writes else None,
        permission=TopicPermission.Value(f"TOPIC_PERMISSION_{permission or 'UNSPECIFIED'}"),
        attributes=attributes,
    )
    answer = await ask(ask.api.topics.UpdateTopic, request)
    return f"Topic {given['topic']} is changed.{not_on(answer.outcomes)}"


def _retention_in(given: Given) -> dict[str, str]:
    """A topic's own retention time, if one was entered."""
    text = given.get("retention", "").strip()
    if not text:
        return {}
    length = length_of_time(text)
    if length is None:
        raise WronglyFilled("retention is a length of time, such as 90s, 12h or 7d.")
    try:
        return retention_attribute(length)
    except ValueError as error:
        raise WronglyFilled(f"{error}.") from None


async def _delete_topic(ask: Asker, given: Given) -> str:
    request = topic_pb.DeleteTopicRequest(topic=given["topic"])
    answer = await ask(ask.api.topics.DeleteTopic, request)
    return f"Topic {given['topic']} is gone.{not_on(answer.outcomes)}"


async def _send(ask: Asker, given: Given) -> str:
    message = Message(
        body=given.get("body", "").encode(),
        tag=given.get("tag", ""),
        keys=given.get("keys", "").split(),
    )
    if given.get("again"):
        asked = message_pb.GetMessageRequest(topic=given["topic"], message_id=given["again"])
        stored = (await ask(ask.api.messages.GetMessage, asked)).message
        message = Message(
            body=stored.body,
            tag=stored.tag,
            keys=stored.keys,
            message_group=stored.message_group,
            properties=stored.properties,
            flag=stored.flag,
        )
    request = message_pb.SendMessageRequest(topic=given["topic"], message=message)
    at = (await ask(ask.api.messages.SendMessage, request)).position
    return f"Sent: it lies at {at.broker_name}/{at.queue_id}/{at.queue_offset}."


async def _consume(ask: Asker, given: Given) -> str:
    group, client_id = given["group"], given.get("client_id", "")
    if not client_id:
        asked = group_pb.ListGroupMembersRequest(consumer_group=group, page_size=1)
        members = (await ask(ask.api.groups.ListGroupMembers, asked)).members
        if not members:
            raise WronglyFilled(f"No member of group {group} is there.")
        client_id = members[0].member.client_id
    request = message_pb.ConsumeMessageRequest(
        consumer_group=group,
        client_id=client_id,
        message_id=given["message_id"],
        topic=given["topic"],
    )
    answer = (await ask(ask.api.messages.ConsumeMessage, request)).answer
    if answer.outcome == CONSUME_OUTCOME_CONSUMED:
        took_ms = answer.duration.ToMilliseconds()
        return f"Consumed by {client_id} in {took_ms:,} ms; no offset was moved."
    raise NotDone(f"{client_id} {_ENDS.get(answer.outcome, 'says nothing')}: {answer.cause}")


async def _redrive(ask: Asker, given: Given) -> str | Unfinished:
    """Make one call of a redrive: it ends after some seconds, and the next call goes on."""
    counts = ("sent", "duplicates", "failed")
    sent, duplicates, failed = (number_in({name: "0", **given}, name) for name in counts)
    request = letter_pb.RedriveDeadLettersRequest(
        consumer_group=given["group"],
        query=letter_query(given),
        to_topic=bool(given.get("to_topic")),
    )
    if given.get("place"):
        request.places.append(_letter_place(given["place"]))
    if given.get("after"):
        request.continue_after.CopyFrom(_letter_place(given["after"]))
    elif not request.to_topic:
        wanted = group_pb.GetGroupRequest(consumer_group=given["group"])
        found = await or_failure(ask(ask.api.groups.GetGroup, wanted))
        if not isinstance(found, Notice) and not gets_returned(found.group):
            raise NotDone(f"Group {given['group']} polls, and gets none that are sent back to it.")
    answer = await ask(ask.api.dead_letters.RedriveDeadLetters, request)
    if request.places and not (answer.redriven_count or answer.duplicate_count or answer.failures):
        raise NotDone(f"Group {given['group']} has no dead letter {given['place']}.")
    sent += answer.redriven_count
    duplicates += answer.duplicate_count
    failed += len(answer.failures)
    cause = given.get("cause") or next(iter(answer.failures), "")
    shortfall = f" {failed:,} could not be: {cause}." if failed else ""
    if answer.HasField("continue_after"):
        place = answer.continue_after
        rest = {
            "sent": str(sent),
            "duplicates": str(duplicates),
            "failed": str(failed),
            "cause": cause,
            "after": f"{place.broker_name}/{place.queue_id}/{place.queue_offset}",
        }
        return Unfinished(f"{sent:,} sent back so far.{shortfall}", {**given, **rest})
    return f"{sent:,} sent back, {duplicates:,} had been before.{shortfall}"


def _letter_place(text: str) -> letter_pb.DeadLetterPlace:
    broker, *numbers = text.rsplit("/", 2)
    if len(numbers) != 2 or not all(each.isdecimal() for each in numbers):
        raise WronglyFilled("A place is broker/queue/offset.")
    return letter_pb.DeadLetterPlace(
        broker_name=broker, queue_id=int(numbers[0]), queue_offset=int(numbers[1])
    )


async def _recall(ask: Asker, given: Given) -> str:
    request = delayed_pb.RecallMessageRequest(recall_handle=given["handle"], topic=given["topic"])
    answer = await ask(ask.api.delayed.RecallMessage, request)
    return "It will not be delivered." if answer.recalled else "It was delivered before."


async def _decide(ask: Asker, given: Given) -> str:
    request = transaction_pb.DecideTransactionRequest(
        transaction_id=given["id"],
        outcome=TransactionOutcome.Value(f"TRANSACTION_OUTCOME_{given['outcome']}"),
        cause=given.get("cause", ""),
    )
    await ask(ask.api.transactions.DecideTransaction, request)
    return f"Transaction {given['id']} has ended: {given['outcome'].lower()}."


async def _resume(ask: Asker, given: Given) -> str:
    request = transaction_pb.ResumeTransactionRequest(transaction_id=given["id"])
    await ask(ask.api.transactions.ResumeTransaction, request)
    return f"The producers of {given['id']} are asked again."


async def _drain(ask: Asker, given: Given) -> str:
    request = cluster_pb.DrainBrokerRequest(broker_name=given["broker"])
    answer = await ask(ask.api.cluster.DrainBroker, request)
    missed = "; ".join(answer.name_server_failures)
    missing = f" Not done: {missed}." if missed else ""
    return f"Broker {given['broker']} takes no more messages.{missing}"


async def _restore(ask: Asker, given: Given) -> str:
    request = cluster_pb.RestoreBrokerRequest(broker_name=given["broker"])
    answer = await ask(ask.api.cluster.RestoreBroker, request)
    missed = "; ".join(answer.name_server_failures)
    missing = f" Not done: {missed}." if missed else ""
    return f"Broker {given['broker']} takes messages again.{missing}"


async def _setting(ask: Asker, given: Given) -> str:
    request = setting_pb.UpdateSettingRequest(
        service=given["service"], name=given["name"], value=given["value"]
    )
    if given.get("address"):
        request.addresses.append(given["address"])
    answer = await ask(ask.api.settings.UpdateSetting, request)
    processes = f"{len(answer.outcomes):,} process{'es' * (len(answer.outcomes) != 1)}"
    return f"{given['name']} is {given['value']} in {processes}."


async def _import(ask: Asker, given: Given) -> str:
    try:
        read = json.loads(given["definitions"])
        if not isinstance(read, dict):
            raise WronglyFilled("An object with topics and groups is expected.")
        definitions = ParseDict(read, definition_pb.Definitions())
    except (ValueError, ParseError, RecursionError) as error:
        raise WronglyFilled(f"These are no definitions: {error}") from error
    changes: list[definition_pb.DefinitionChange] = []
    for part in parts_of(definitions):
        request = definition_pb.ImportDefinitionsRequest(definitions=part)
        changes += (await ask(ask.api.definitions.ImportDefinitions, request)).changes
    failed = [each for each in changes if each.failure]
    shown = f" {len(failed)} failed: {failed[0].subject}: {failed[0].failure}." if failed else ""
    return f"Done: {counted(len(changes) - len(failed), 'change')}.{shown}"


def _topic_page(given: Given) -> str:
    return to("topics", given["topic"])


CHANGES: Final[Mapping[str, Change]] = {
    **FILTER_CHANGES,
    **FORGETTING_CHANGES,
    **LIMIT_CHANGES,
    **REPLICA_CHANGES,
    "/topics/create": Change(
        "Create topic {topic}? Queues on each broker: {queues}.", _create_topic, _topic_page
    ),
    "/topics/update": Change(
        "Change topic {topic} on all its brokers? What is not listed here stays as it is.",
        _update_topic,
        _topic_page,
    ),
    "/topics/delete": Change(
        "Delete topic {topic} with all its messages and the offsets of its groups?",
        _delete_topic,
        lambda _: "/topics",
        danger=True,
    ),
    **PURGE_CHANGES,
    **GROUP_CHANGES,
    "/messages/send": Change(
        "Send a message to topic {topic}? All its groups get it.",
        _send,
        lambda given: to("messages", topic=given["topic"]),
    ),
    "/messages/consume": Change(
        "Have one member of group {group} consume this message once more? Whatever its listener"
        " does, it does again.",
        _consume,
        lambda given: to("messages", given["topic"], given["message_id"]),
    ),
    "/dead-letters/redrive": Change(
        "Send dead letters of group {group} back? {place}",
        _redrive,
        lambda given: to("dead-letters", group=given["group"]),
        danger=True,
    ),
    "/delayed/recall": Change(
        "Take the message of topic {topic} back? It will never be delivered.",
        _recall,
        lambda _: "/delayed",
        danger=True,
    ),
    "/transactions/decide": Change(
        "End transaction {id}: {outcome}?", _decide, lambda _: "/transactions", danger=True
    ),
    "/transactions/resume": Change(
        "Have the producers of transaction {id} asked again?", _resume, lambda _: "/transactions"
    ),
    "/cluster/drain": Change(
        "Let broker {broker} take no more messages? Consumers go on.",
        _drain,
        lambda given: to("cluster", given["broker"]),
        danger=True,
    ),
    "/cluster/restore": Change(
        "Let broker {broker} take messages again?",
        _restore,
        lambda given: to("cluster", given["broker"]),
    ),
    "/settings/update": Change(
        "Set {name} of {service} to {value} until the process ends?",
        _setting,
        lambda given: to("settings", service=given["service"]),
    ),
    "/definitions/import": Change(
        "Make the topics and groups that are missing, and change those that differ?",
        _import,
        lambda _: "/settings",
    ),
}
"""All changes, by the path of their forms."""
