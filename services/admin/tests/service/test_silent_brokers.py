"""A broker is frozen: what admin tells then comes in time, is a part, and says so."""

import asyncio
import importlib
import os
import pkgutil
import signal
import time

import pytest
from google.protobuf.message_factory import GetMessageClass
from grpc import aio

import ariane.admin.v1
from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceStub
from ariane.admin.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.broker.v1.group_service_pb2 import ConsumerGroup
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane_admin.console.api import CALL_S_MAX
from ariane_sdk import Message, MessageQueue, Producer, PushConsumer
from ariane_servicekit.running.processes import LocalCluster
from ariane_servicekit.security.rules.method_rules import changes
from ariane_testkit.small_store import SMALL_STORE

UNPAGED_LISTS = {
    "AccessPolicyService/ExplainRefusal": "of one refusal: the processes that are silent",
    "AccessPolicyService/SuggestAccess": "a policy: what a process remembers, at most 10,000",
    "AlertService/ListAlertRules": "one rule for each figure that can be watched",
    "ClientService/GetClientState": "of one client",
    "ClusterService/DiagnoseCluster": "1,000 findings",
    "DefinitionService/ExportDefinitions": "whole or not at all: one with holes looks whole",
    "FilterService/GetFilter": "of one version: the FilterServers that are silent",
    "GatewayKeyService/WatchGatewayKeys": "a stream: 5,000 keys at a time",
    "GroupService/GetGroup": "of one group: its brokers",
    "HistoryService/GetHistory": "1,000 points, as wide as they have to be",
    "MessageService/GetMessage": "of one message: 100 groups",
    "ReplicaSetService/GetReplicaSet": "of one set: its members",
    "TopicService/GetTopic": "of one topic: its brokers",
}
"""Methods that read, answer with lists, and have no pages: what bounds them."""

PARTS = {
    "ClientService/GetClientState": {},
    "ClientService/ListClients": {},
    "ClientService/ListProducers": {},
    "DeadLetterService/ListDeadLetters": {"consumer_group": "crew"},
    "DelayedMessageService/ListDelayedMessages": {},
    "GroupService/GetGroup": {"consumer_group": "crew"},
    "GroupService/ListGroupMembers": {"consumer_group": "crew"},
    "GroupService/ListGroups": {},
    "GroupService/ListSubscriptionConflicts": {},
    "LagService/ListGroupLags": {},
    "LagService/ListQueueLags": {"consumer_group": "crew"},
    "MessageService/GetMessage": {"topic": "part"},
    "MessageService/ListMessageTraces": {"unique_id": "0" * 32},
    "MessageService/QueryMessages": {"topic": "part"},
    "QuotaService/ListQuotaUses": {},
    "SinkService/ListSinks": {},
    "TopicService/GetTopic": {"topic": "part"},
    "TopicService/ListTopicQueues": {"topic": "part"},
    "TopicService/ListTopics": {},
}
"""Methods that name who is silent in `silent_brokers`, each with a request."""

NAMED_OTHERWISE = {
    "ClusterService/DiagnoseCluster": ({}, lambda told: "broker-b" in str(told.findings)),
    "ClusterService/GetBroker": (
        {"broker_name": "broker-b"},
        lambda told: told.broker.HasField("error"),
    ),
    "ClusterService/ListBrokers": (
        {},
        lambda told: [each.HasField("error") for each in told.brokers] == [False, True],
    ),
    "ClusterService/ListClusters": (
        {},
        lambda told: [each.broker_name for each in told.clusters[0].silent_brokers] == ["broker-b"],
    ),
    "ReplicaSetService/GetReplicaSet": (
        {"broker_name": "broker-b"},
        lambda told: [each.HasField("error") for each in told.members] == [True],
    ),
    "SettingService/ListProcesses": (
        {"service": "broker"},
        lambda told: sorted(each.HasField("error") for each in told.processes) == [False, True],
    ),
    "SettingService/ListSettings": (
        {"service": "broker"},
        lambda told: (
            [each.process.member for each in told.silent_processes] == ["broker-b/0"]
            and len(told.settings[0].values) == 1
        ),
    ),
}
"""Methods that name it in their own words."""

WHOLE_OR_NOT = {
    "DefinitionService/ExportDefinitions": {},
}
"""Methods that fail and name the broker: a part would mislead."""

NO_BROKER_IS_ASKED = {
    *("AlertService/ListAlertRules", "AlertService/ListAlerts"),
    *("AuditService/ListAuditEntries", "AuditService/VerifyAuditTrail"),
    "ClusterService/ListNameServers",
    "ConsoleService/CreateSignInLink",
    "GatewayKeyService/WatchGatewayKeys",
    "QuotaService/ListQuotas",
    *("UserService/GetUser", "UserService/ListUsers", "UserService/ListCredentials"),
    *("AccessPolicyService/GetAccessPolicy", "AccessPolicyService/ListAccessPolicies"),
    *("AccessPolicyService/CheckAccess", "AccessPolicyService/SuggestAccess"),
    "AccessPolicyService/ExplainRefusal",
    *("HistoryService/GetHistory", "HistoryService/ListSeries"),
    *("TransactionService/GetTransaction", "TransactionService/ListTransactions"),
    "TransactionService/ListTransactionChecks",
    # FilterServers are asked; test_silent_filter_servers.py.
    *("FilterService/GetFilter", "FilterService/ListFilters"),
}


def reading_methods():
    """From the descriptors: whoever adds a service or a method is in it."""
    for module in pkgutil.iter_modules(ariane.admin.v1.__path__):
        if module.name.endswith("_service_pb2"):
            found = importlib.import_module(f"ariane.admin.v1.{module.name}").DESCRIPTOR
            for service in found.services_by_name.values():
                for method in service.methods:
                    if changes(method):
                        continue
                    yield f"{service.name}/{method.name}", method


METHODS = dict(reading_methods())


def test_every_list_has_pages_or_is_bounded():
    unpaged = set()
    for name, method in METHODS.items():
        asked = set(method.input_type.fields_by_name)
        told = method.output_type.fields_by_name
        paged = {"page_size", "page_token"} <= asked and "next_page_token" in told
        if any(field.is_repeated for field in told.values()) and not paged:
            unpaged.add(name)
    assert unpaged == set(UNPAGED_LISTS)


def test_of_every_method_it_is_known_how_it_tells_of_silence():
    known = [*PARTS, *NAMED_OTHERWISE, *WHOLE_OR_NOT, *NO_BROKER_IS_ASKED]
    assert sorted(known) == sorted(METHODS)
    for name in PARTS:
        assert "silent_brokers" in METHODS[name].output_type.fields_by_name, name


@pytest.fixture
async def own_cluster(tmp_path):
    """Two brokers of its own: they are frozen."""
    async with LocalCluster(
        tmp_path,
        brokers=2,
        checkers=1,
        admin=True,
        extra_broker_args=SMALL_STORE,
    ) as running:
        yield running
        for broker in running.brokers:
            os.kill(broker.pid, signal.SIGCONT)


@pytest.mark.slow
async def test_what_a_silent_broker_would_tell_is_named_in_time(own_cluster):
    frozen = own_cluster.brokers[1]
    address = own_cluster.admins[0].address
    listened = asyncio.Event()

    async def listen(_):
        listened.set()

    async with aio.insecure_channel(address) as channel:
        topics = TopicServiceStub(channel)
        await topics.CreateTopic(topic_pb.CreateTopicRequest(topic=Topic(topic="part")))
        group = ConsumerGroup(consumer_group="crew", consume_enabled=True, attempts_max=16)
        await GroupServiceStub(channel).CreateGroup(group_pb.CreateGroupRequest(group=group))
        async with (
            Producer(own_cluster.name_servers) as producer,
            PushConsumer(
                own_cluster.name_servers,
                group="crew",
                subscriptions={"part": "*"},
                listener=listen,
                start="earliest",
            ) as member,
        ):
            queue = MessageQueue("part", "broker-a", 0)
            sent = await producer.send(Message("part", b"seen"), message_queue=queue)
            await listened.wait()
            os.kill(frozen.pid, signal.SIGSTOP)
            own = {
                "ClientService/GetClientState": {"client_id": member.client_id},
                "MessageService/GetMessage": {"topic": "part", "message_id": sent.message_id},
            }

            async def told(name, fields):
                service, _, method = name.partition("/")
                begun = time.monotonic()
                call = channel.unary_unary(
                    f"/ariane.admin.v1.{service}/{method}",
                    request_serializer=lambda request: request.SerializeToString(),
                    response_deserializer=GetMessageClass(METHODS[name].output_type).FromString,
                )
                try:
                    return await call(
                        GetMessageClass(METHODS[name].input_type)(**fields), timeout=60
                    )
                except aio.AioRpcError as error:
                    return error
                finally:
                    assert time.monotonic() - begun < CALL_S_MAX, name

            asked = {**PARTS, **own, **{name: it[0] for name, it in NAMED_OTHERWISE.items()}}
            asked |= WHOLE_OR_NOT
            told_all = await asyncio.gather(*(told(*each) for each in asked.items()))
            answers = dict(zip(asked, told_all, strict=True))
            os.kill(frozen.pid, signal.SIGCONT)
    for name in PARTS:
        silent = answers[name].silent_brokers
        assert [each.broker_name for each in silent] == ["broker-b"], name
        assert silent[0].error.message, name
    for name, (_, names_it) in NAMED_OTHERWISE.items():
        assert names_it(answers[name]), (name, answers[name])
    for name in WHOLE_OR_NOT:
        assert "broker-b" in answers[name].details(), name


@pytest.mark.slow
async def test_a_change_that_a_silent_broker_did_not_take_is_told_and_audited(own_cluster):
    frozen = own_cluster.brokers[1]
    async with aio.insecure_channel(own_cluster.admins[0].address) as channel:
        topics = TopicServiceStub(channel)
        await topics.CreateTopic(topic_pb.CreateTopicRequest(topic=Topic(topic="part")))
        os.kill(frozen.pid, signal.SIGSTOP)
        changed = await topics.UpdateTopic(
            topic_pb.UpdateTopicRequest(topic="part", read_queue_count=5, write_queue_count=5)
        )
        assert [each.HasField("error") for each in changed.outcomes] == [False, True]
        os.kill(frozen.pid, signal.SIGCONT)
        trail = await AuditServiceStub(channel).ListAuditEntries(
            audit_pb.ListAuditEntriesRequest(method="UpdateTopic")
        )
        assert [each.outcome for each in trail.entries] == [audit_pb.AUDIT_OUTCOME_PARTLY]
