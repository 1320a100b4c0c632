"""The trail around methods: also when they are cut off, or the database is."""

# ruff: noqa: N802 - methods are named by the contract.

import asyncio
import json

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1.audit_service_pb2 import (
    AUDIT_OUTCOME_DONE,
    AUDIT_OUTCOME_FAILED,
    AUDIT_OUTCOME_UNKNOWN,
)
from ariane.admin.v1.topic_service_pb2_grpc import add_TopicServiceServicer_to_server
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.common.v1.message_pb2 import Message
from ariane_admin.audit.auditing import JSON_BYTES_MAX, Auditing, resource_name, trail_json
from ariane_admin.audit.trail import AuditTrail, Selection
from ariane_admin.servicers.public_errors import ADMIN_ERROR_RULES
from ariane_sdk.errors import CallError, TopicNotFound
from ariane_servicekit import ErrorTranslator, RpcService, ServiceError

REQUEST = topic_pb.DeleteTopicRequest(topic="orders")


class Scripted:
    """Deletes topics as a test says."""

    def __init__(self):
        self.deleted = 0
        self.error = None
        self.entered = asyncio.Event()
        self.hold = False

    async def before(self, method, request):
        if request.topic == "away":
            raise TopicNotFound("away")
        return topic_pb.ClusterTopic(topic=request.topic)

    async def DeleteTopic(self, request, context):
        self.entered.set()
        if self.hold:
            await asyncio.Event().wait()
        self.deleted += 1
        if self.error is not None:
            raise self.error
        return topic_pb.DeleteTopicResponse()

    async def CreateTopic(self, request, context):
        return topic_pb.CreateTopicResponse()

    UpdateTopic = CreateTopic
    UpdateTopicQueueOrder = CreateTopic
    PurgeTopic = CreateTopic


@pytest.fixture
def scripted():
    return Scripted()


@pytest.fixture
def audited(database, scripted):
    translator = ErrorTranslator(ADMIN_ERROR_RULES)
    auditing = Auditing(AuditTrail(database), database, translator, "proof")
    descriptor = topic_pb.DESCRIPTOR.services_by_name["TopicService"]
    service = RpcService(descriptor, add_TopicServiceServicer_to_server, scripted)
    return auditing.audited(service).servicer


@pytest.fixture
def delete(audited):
    return audited.DeleteTopic


@pytest.fixture
def purge(audited):
    return audited.PurgeTopic


@pytest.fixture
def entries(database):
    def read():
        return AuditTrail(database).entries(Selection(), before=None, limit=10)

    return read


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_change_has_what_was_before_and_after(delete, entries):
    await delete(REQUEST, None)
    [entry] = entries()
    assert json.loads(entry.begin.record.before_json) == {"topic": "orders"}
    assert entry.end.record.outcome == AUDIT_OUTCOME_DONE


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_change_that_the_trail_cannot_tell_is_refused_and_not_made(purge, entries):
    request = topic_pb.PurgeTopicRequest(topic="orders", before=Timestamp(nanos=-1))
    with pytest.raises(ServiceError) as refused:
        await purge(request, None)
    assert refused.value.reason == ErrorReason.ERROR_REASON_FIELD_INVALID
    assert "before" in str(refused.value)
    assert not entries()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_change_that_is_cancelled_half_way_gets_its_end(delete, scripted, entries):
    scripted.hold = True
    call = asyncio.create_task(delete(REQUEST, None))
    await scripted.entered.wait()
    assert entries()[0].end is None
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(60):
        while entries()[0].end is None:  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.01)
    assert entries()[0].end.record.outcome == AUDIT_OUTCOME_UNKNOWN


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (TopicNotFound("none"), AUDIT_OUTCOME_FAILED, "TOPIC_NOT_FOUND"),
        (CallError("lost", outcome_unknown=True), AUDIT_OUTCOME_UNKNOWN, "CHANGE_UNCONFIRMED"),
        (ZeroDivisionError(), AUDIT_OUTCOME_UNKNOWN, "INTERNAL_FAULT"),
    ],
)
async def test_a_failure_is_told_with_its_reason(delete, scripted, entries, error, outcome, reason):
    scripted.error = error
    with pytest.raises(type(error)):
        await delete(REQUEST, None)
    [entry] = entries()
    assert (entry.end.record.outcome, entry.end.record.failure_reason) == (outcome, reason)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_change_whose_begin_cannot_be_written_is_not_made(
    delete, scripted, database, monkeypatch
):
    def fail(_self, _asked):
        raise OSError("disk full")

    monkeypatch.setattr(AuditTrail, "begin", fail)
    with pytest.raises(OSError, match="disk full"):
        await delete(REQUEST, None)
    assert scripted.deleted == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_change_whose_end_cannot_be_written_says_so(delete, scripted, monkeypatch, entries):
    def fail(_self, _begun, _ended):
        raise OSError("disk full")

    monkeypatch.setattr(AuditTrail, "end", fail)
    with pytest.raises(ServiceError) as told_so:
        await delete(REQUEST, None)
    assert told_so.value.row.outcome_unknown
    assert scripted.deleted == 1
    assert entries()[0].end is None


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_what_was_before_may_be_unknown(delete, entries):
    await delete(topic_pb.DeleteTopicRequest(topic="away"), None)
    [entry] = entries()
    assert entry.begin.record.before_json == ""
    assert entry.end.record.outcome == AUDIT_OUTCOME_DONE


def test_bodies_are_left_out_and_long_things_are_cut():
    assert "secret" not in trail_json(Message(body=b"secret", topic="t"))
    url = "postgresql://me:secret@h/x?sslpassword=secret"
    assert "secret" not in trail_json(topic_pb.ListTopicsRequest(name_prefix=url))
    long = topic_pb.ListTopicsRequest(name_prefix='\N{SNOWMAN}"' * 20_000)
    assert len(trail_json(long).encode()) <= JSON_BYTES_MAX
    assert json.loads(trail_json(long))["cut"]


def test_a_request_names_what_it_is_about():
    created = topic_pb.CreateTopicRequest(topic=Topic(topic="orders"))
    assert resource_name(created) == "orders"
    assert resource_name(REQUEST) == "orders"
    assert resource_name(topic_pb.ListTopicsRequest()) == ""


def test_offsets_are_filed_under_the_group_whose_they_are():
    reset = group_pb.ResetGroupOffsetsRequest(consumer_group="g1", topic="orders")
    assert resource_name(reset) == "g1"
    cloned = group_pb.CloneGroupOffsetsRequest(
        consumer_group="g1", target_consumer_group="g2", topic="orders"
    )
    assert resource_name(cloned) == "g2"
