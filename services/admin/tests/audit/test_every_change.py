"""Every changing method of the contract leaves its entry, also when it fails half-way."""

import asyncio
import importlib
import pkgutil

import pytest
from google.protobuf.message_factory import GetMessageClass
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from grpc.aio import AioRpcError

import ariane.admin.v1
from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane_admin.audit.auditing import Auditing
from ariane_admin.audit.trail import AuditTrail, Selection
from ariane_admin.servicers.public_errors import ADMIN_ERROR_RULES
from ariane_sdk.errors import CallError
from ariane_servicekit import ErrorTranslator, RpcService
from ariane_servicekit.security.rules.method_rules import changes

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def changing_methods():
    """From the descriptors: whoever adds a service or a method is in it."""
    for module in pkgutil.iter_modules(ariane.admin.v1.__path__):
        if module.name.endswith("_service_pb2"):
            found = importlib.import_module(f"ariane.admin.v1.{module.name}").DESCRIPTOR
            for service in found.services_by_name.values():
                for method in service.methods:
                    if changes(method):
                        yield service, method


METHODS = list(changing_methods())


class HalfDone:
    """A servicer whose every method does a part, and then what a test says."""

    def __init__(self, end):
        self.end = end
        self.done = []

    def __getattr__(self, name):
        if name == "before":
            raise AttributeError(name)

        async def method(_request, _context):
            self.done.append(name)
            return await self.end()

        return method


@pytest.fixture
def call(database):
    """Calls a method under the trail; its one entry."""
    auditing = Auditing(AuditTrail(database), database, ErrorTranslator(ADMIN_ERROR_RULES), "proof")

    async def call(service, method, end):
        servicer = HalfDone(end)
        audited = auditing.audited(RpcService(service, None, servicer)).servicer
        request = GetMessageClass(method.input_type)()
        task = asyncio.create_task(getattr(audited, method.name)(request, None))
        await asyncio.wait([task], timeout=60)
        assert servicer.done == [method.name]
        [entry] = AuditTrail(database).entries(Selection(), before=None, limit=1)
        assert entry.begin.record.method == f"{service.full_name}/{method.name}"
        return task, entry.end.record

    return call


def test_there_are_as_many_as_the_services_have():
    assert len(METHODS) == 40


@on_sqlite
async def test_a_method_that_fails_half_way_leaves_its_end(call):
    async def fail():
        await asyncio.sleep(0)
        raise CallError("broker-b is gone", outcome_unknown=True)

    for service, method in METHODS:
        task, end = await call(service, method, fail)
        assert isinstance(task.exception(), CallError)
        assert end.outcome == audit_pb.AUDIT_OUTCOME_UNKNOWN, method.full_name
        assert "broker-b is gone" in end.failure_message


@on_sqlite
async def test_a_method_that_is_cut_off_half_way_leaves_its_end(call):
    async def cut_off():
        raise asyncio.CancelledError

    for service, method in METHODS:
        task, end = await call(service, method, cut_off)
        assert task.cancelled()
        assert end.outcome == audit_pb.AUDIT_OUTCOME_UNKNOWN, method.full_name
        assert end.failure_reason == "CANCELLED"


@on_sqlite
async def test_an_answer_that_names_who_did_not_do_its_part_is_no_done(call):
    seen = set()
    for service, method in METHODS:
        for answer in shortfalls(GetMessageClass(method.output_type)):

            async def answered(answer=answer):
                return answer

            _, end = await call(service, method, answered)
            assert end.outcome == audit_pb.AUDIT_OUTCOME_PARTLY, (method.full_name, answer)
            seen.add(method.name)
    assert {"CreateTopic", "DeleteTopic", "DrainBroker", "RedriveDeadLetters"} <= seen


def shortfalls(answer_class):
    """Answers that each say by one field that something was not done."""
    for field in answer_class.DESCRIPTOR.fields:
        answer = answer_class()
        if (
            field.name in {"failures", "name_server_failures", "unnotified_broker_names"}
            and field.message_type is None
        ):
            getattr(answer, field.name).append("broker-b: gone")
        elif field.message_type is not None and field.is_repeated:
            part = getattr(answer, field.name).add()
            inner = field.message_type.fields_by_name
            if "failure" in inner and inner["failure"].message_type is None:
                part.failure = "gone"
            elif "error" in inner and inner["error"].message_type is Status.DESCRIPTOR:
                part.error.message = "gone"
            else:
                continue
        else:
            continue
        yield answer


async def test_a_call_of_each_that_is_refused_stands_in_the_trail(admin, entries):
    refused, codes = 0, set()
    for service, method in METHODS:
        call = admin.unary_unary(
            f"/{service.full_name}/{method.name}",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        before = await entries(page_size=1000)
        try:
            await call(GetMessageClass(method.input_type)(), timeout=60)
        except AioRpcError as error:
            codes.add(error.code())
            wanted = {audit_pb.AUDIT_OUTCOME_FAILED, audit_pb.AUDIT_OUTCOME_UNKNOWN}
            refused += 1
        else:
            wanted = {audit_pb.AUDIT_OUTCOME_DONE}
        told = (await entries(page_size=1000))[len(before) :]
        assert [each.method for each in told] == [f"{service.full_name}/{method.name}"]
        assert told[0].outcome in wanted, (method.full_name, told)
        assert bool(told[0].failure_reason) == (wanted != {audit_pb.AUDIT_OUTCOME_DONE})
    assert refused >= 20
    assert not codes & {StatusCode.INTERNAL, StatusCode.UNKNOWN}
