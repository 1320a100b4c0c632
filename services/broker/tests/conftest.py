"""A broker inside the test's own process: the real app, real gRPC, a real store in ``tmp_path``."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import numpy as np
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from grpc import StatusCode, aio
from grpc_status import rpc_status

from ariane.broker.v1 import (
    broker_service_pb2_grpc,
    client_service_pb2_grpc,
    group_service_pb2_grpc,
    offset_service_pb2_grpc,
    pull_service_pb2_grpc,
    query_service_pb2_grpc,
    receive_service_pb2_grpc,
    retry_service_pb2_grpc,
    send_service_pb2_grpc,
    sink_service_pb2_grpc,
    topic_service_pb2_grpc,
    transaction_service_pb2_grpc,
)
from ariane.broker.v1 import (
    offset_service_pb2 as offset_pb,
)
from ariane.broker.v1 import (
    pull_service_pb2 as pull_pb,
)
from ariane.broker.v1 import (
    send_service_pb2 as send_pb,
)
from ariane.broker.v1 import (
    topic_service_pb2 as topic_pb,
)
from ariane.broker.v1 import (
    transaction_service_pb2 as transaction_pb,
)
from ariane.common.v1 import message_pb2 as message_pb
from ariane_broker import app
from ariane_broker.app import compose
from ariane_broker.settings import BrokerSettings
from ariane_record import ProducerSequence
from ariane_record.decoding.columns import decode_columns
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import Machine, serving
from ariane_testkit.access_rules import telling
from ariane_testkit.append_rows import results_of, row_of, rows_request
from ariane_testkit.identities import as_member, as_user, identity_interceptors, stated_identity
from pytest_ariane.forward_clock import ForwardClock

CODES = {code.value[0]: code.name for code in StatusCode}


class Refused(Exception):
    """One of several in a request was refused."""

    def __init__(self, status):
        super().__init__(status.message)
        self.status = status


class BrokerProbe:
    """All stubs of one broker, and the few calls that most tests need."""

    def __init__(self, channel, address):
        self.address = address
        self.channel = channel
        self.broker = broker_service_pb2_grpc.BrokerServiceStub(channel)
        self.clients = client_service_pb2_grpc.ClientServiceStub(channel)
        self.groups = group_service_pb2_grpc.GroupServiceStub(channel)
        self.offsets = offset_service_pb2_grpc.OffsetServiceStub(channel)
        self.pulls = pull_service_pb2_grpc.PullServiceStub(channel)
        self.queries = query_service_pb2_grpc.QueryServiceStub(channel)
        self.receives = receive_service_pb2_grpc.ReceiveServiceStub(channel)
        self.retries = retry_service_pb2_grpc.RetryServiceStub(channel)
        self.sends = send_service_pb2_grpc.SendServiceStub(channel)
        self.sinks = sink_service_pb2_grpc.SinkServiceStub(channel)
        self.topics = topic_service_pb2_grpc.TopicServiceStub(channel)
        self.transactions = transaction_service_pb2_grpc.TransactionServiceStub(channel)

    async def create_topic(self, topic, queue_count=1, **fields):
        wanted = topic_pb.Topic(
            topic=topic,
            read_queue_count=queue_count,
            write_queue_count=queue_count,
            **fields,
        )
        response = await self.topics.CreateTopic(topic_pb.CreateTopicRequest(topic=wanted))
        return response.topic

    async def append(self, *batches):
        answer = await self.sends.AppendRecords(rows_request(batches))
        return results_of(answer, [batch.count for batch in batches])

    async def store(self, topic, bodies, queue_id=0, **options):
        (result,) = await self.append(self.batch(topic, bodies, queue_id, **options))
        assert result.error is None, result.error
        return result

    @staticmethod
    def batch(
        topic, bodies, queue_id=0, *, tags=(), keys=(), sequence=None, properties=None, **fields
    ):
        encoder = BlockEncoder(topic, size_bytes_max=8 << 20, sequenced=sequence is not None)
        for place, body in enumerate(bodies):
            encoder.add(
                body,
                tag=tags[place] if tags else "",
                keys=(keys[place],) if keys else (),
                unique_id=f"id-{place}",
                properties=properties,
                born_timestamp_ms=1_700_000_000_000,
            )
        place = None if sequence is None else ProducerSequence(*sequence)
        block = encoder.finish(place)
        said = None
        if place is not None:
            said = send_pb.ProducerSequence(
                producer_id=place.producer_id,
                producer_epoch=place.epoch,
                first_sequence=place.first_sequence,
            )
        return row_of(block, queue_id, sequence=said, **fields)

    async def transact(self, *ends):
        """What one call is answered."""
        request = transaction_pb.UpdateTransactionsRequest(ends=ends)
        answer = await self.transactions.UpdateTransactions(request)
        for result in answer.ends:
            if result.HasField("error"):
                raise Refused(result.error)
        return answer.ends

    async def store_half(
        self, unique_id, body=b"paid", *, topic="orders", queue_id=0, group="pay", **fields
    ):
        message = message_pb.Message(
            body=body,
            unique_id=unique_id,
            message_type=message_pb.MESSAGE_TYPE_TRANSACTION,
            **fields,
        )
        request = send_pb.SendMessagesRequest(
            topic=topic, queue_id=queue_id, messages=[message], half_group=group
        )
        return await self.sends.SendMessages(request)

    async def end_transaction(
        self, transaction_id, outcome, *, topic="orders", group="pay", unique_id=None
    ):
        end = transaction_pb.TransactionToEnd(
            topic=topic,
            transaction_id=transaction_id,
            unique_id=transaction_id if unique_id is None else unique_id,
            outcome=outcome,
            producer_group=group,
        )
        (ended,) = await self.transact(end)
        return ended

    def pull_call(self, *positions, group="group", hold_s=0.0, timeout=None, **fields):
        request = pull_pb.PullRecordsRequest(
            consumer_group=group,
            positions=[
                pull_pb.PullPosition(topic=topic, queue_id=queue_id, queue_offset=queue_offset)
                for topic, queue_id, queue_offset in positions
            ],
            **fields,
        )
        request.hold_duration.FromMilliseconds(round(hold_s * 1000))
        return self.pulls.PullRecords(request, timeout=timeout)

    async def pull(self, *positions, **options):
        return list((await self.pull_call(*positions, **options)).queues)

    async def bodies(self, topic, queue_id=0, queue_offset=0, **options):
        (pulled,) = await self.pull((topic, queue_id, queue_offset), **options)
        return bodies_of(pulled)

    async def store_offset(self, group, topic, queue_id, queue_offset, *, durable=False):
        wanted = offset_pb.QueueConsumerOffset(
            topic=topic, queue_id=queue_id, queue_offset=queue_offset
        )
        request = offset_pb.StoreConsumerOffsetsRequest(
            consumer_group=group, offsets=[wanted], durable=durable
        )
        return list((await self.offsets.StoreConsumerOffsets(request)).refused)

    async def known_offset(self, group, topic, queue_id=0):
        reference = offset_pb.QueueReference(topic=topic, queue_id=queue_id)
        request = offset_pb.GetConsumerOffsetsRequest(consumer_group=group, queues=[reference])
        (offset,) = (await self.offsets.GetConsumerOffsets(request)).offsets
        return offset.queue_offset if offset.HasField("queue_offset") else None


def bodies_of(pulled):
    assert not pulled.HasField("error"), pulled.error
    columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
    return [message.body for message in map(columns.message, range(len(columns)))]


@dataclass
class Failure:
    """What a refused call says."""

    reason: str
    code: str
    metadata: dict


def failure_of(status):
    """What a ``google.rpc.Status`` says; for an exception of gRPC, what its status says."""
    code = None
    if isinstance(status, aio.AioRpcError):
        code = status.code().name
        status = rpc_status.from_call(status)
        assert status is not None, "no status details"
    elif isinstance(status, Refused):
        status = status.status
        code = CODES[status.code]
    for detail in status.details:
        info = ErrorInfo()
        if detail.Unpack(info):
            assert info.domain == "ariane.mq"
            return Failure(info.reason, code, dict(info.metadata))
    raise AssertionError(f"no ErrorInfo in {status}")


@pytest.fixture
def refused():
    """Await a call that must fail; give what its status says."""

    async def await_refusal(call):
        with pytest.raises((aio.AioRpcError, Refused)) as raised:
            await call
        return failure_of(raised.value)

    return await_refusal


@pytest.fixture
def reason_of():
    return lambda status: failure_of(status).reason


@pytest.fixture
def read_bodies():
    return bodies_of


@pytest.fixture
def settings_for(tmp_path):
    """Settings of a small broker; the same store for all that one test makes."""

    def make(**changes):
        values = {
            "store_path": tmp_path / "store",
            "segment_bytes": 6 << 20,
            "consume_queue_entries": 1000,
            "index_slots": 1000,
            "index_items": 4000,
            "grace_s": 0.1,
            # How full the machine's disk is, is not a test's matter.
            "disk_clean_ratio": 0.97,
            "disk_force_ratio": 0.98,
            "disk_refuse_ratio": 0.99,
        }
        return BrokerSettings(**(values | changes))

    return make


@pytest.fixture
def clock(monkeypatch):
    """What timers of this test's brokers go by: it may be put forward. Stores have their own."""
    forward = ForwardClock()
    monkeypatch.setattr(app, "SystemClock", lambda: forward)
    return forward


@pytest.fixture
def running(settings_for):
    """Run a broker for the length of a block."""

    @asynccontextmanager
    async def run(**changes):
        async with (
            serving(settings_for(**changes), compose) as address,
            aio.insecure_channel(
                str(address), options=[("grpc.max_receive_message_length", -1)]
            ) as channel,
        ):
            yield BrokerProbe(channel, address)

    return run


class ClosedBroker:
    """A broker that judges its callers, with a probe for each of them."""

    def __init__(self, address, stack, admin):
        self.admin = admin
        self._address = address
        self._stack = stack
        self._probes = {}

    async def of(self, caller):
        """The probe of a user by name, or of a member by kind."""
        if caller not in self._probes:
            metadata = as_user(caller) if isinstance(caller, str) else as_member(caller)
            channel = aio.insecure_channel(
                self._address, interceptors=identity_interceptors(metadata)
            )
            await self._stack.enter_async_context(channel)
            self._probes[caller] = BrokerProbe(channel, self._address)
        return self._probes[caller]


@pytest.fixture
def running_closed(settings_for):
    """Run a closed broker, whose super user is root, for the length of a block."""

    @asynccontextmanager
    async def run(*rules, **changes):
        settings = settings_for(access="closed", super_users=("root",), **changes)
        async with AsyncExitStack() as stack:
            machine = Machine(identify=stated_identity)
            address = await stack.enter_async_context(serving(settings, compose, machine))
            channel = await stack.enter_async_context(aio.insecure_channel(str(address)))
            admin = await stack.enter_async_context(telling(channel))
            await admin.tell(*rules)
            yield ClosedBroker(str(address), stack, admin)

    return run


def copy_there(source, target):
    """Copy a file, unless the broker has just put another one in its place."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)


@pytest.fixture
def copy_store(tmp_path):
    """Copy the store as it is now, which is what a killed process leaves."""

    def state(source):
        """What the files of one moment have in common."""
        stats = {}
        for path in source.rglob("*"):
            with suppress(FileNotFoundError):
                stat = path.stat()
                stats[path] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        return stats

    def copy_store(source="store", copy="copy"):
        source, copy = tmp_path / source, tmp_path / copy
        # Files that were copied before and after the broker wrote are of no moment that there was.
        for _ in range(20):
            before = state(source)
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(source, copy, copy_function=copy_there)
            if state(source) == before:
                break
        return copy

    return copy_store


@pytest.fixture
def crashed(running, copy_store):
    """A broker on the store as it is now: what a killed process leaves."""

    def run(**changes):
        return running(store_path=copy_store(), **changes)

    return run


@pytest.fixture
async def broker(running):
    async with running() as probe:
        yield probe


@pytest.fixture
def probe_class():
    return BrokerProbe
