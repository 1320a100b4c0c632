from __future__ import annotations

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from ariane.broker.v1.send_service_pb2 import AppendRecordsRequest, AppendTable
from ariane.common.v1 import access_pb2 as access
from ariane_servicekit import RpcService
from ariane_servicekit.security.rules.method_rules import AccessRuleMissing, method_rules
from ariane_testkit.contract import contract_services

APPEND = "/ariane.broker.v1.SendService/AppendRecords"


def every_method():
    services = list(contract_services())
    assert len(services) >= 13
    return services, [f"/{s.full_name}/{m.name}" for s in services for m in s.methods]


def test_every_method_of_the_contract_has_a_rule_that_can_be_judged():
    services, methods = every_method()
    rules = method_rules(services, asked=methods)
    assert sorted(rules) == sorted(methods)
    [table] = rules[APPEND].needs
    assert (table.action, table.resource) == (access.ACTION_PUBLISH, access.RESOURCE_TOPIC)
    request = AppendRecordsRequest(table=AppendTable(topics=["a", "b"]))
    assert list(table.names(request)) == ["a", "b"]


def test_only_lists_and_replies_of_members_are_free_of_needs():
    services, methods = every_method()
    free = {
        name.rpartition("/")[2]
        for name, rule in method_rules(services, asked=methods).items()
        if not (rule.needs or rule.is_for_members or rule.shown)
    }
    # Everybody who is known may ask what there is; the others judge what their handles touch.
    known = {"GetProcessState", "ListBrokers", "ListClusters", "ListNameServers"}
    touching = {
        *("AbortBatch", "CommitBatch", "GetBatchProgress", "NoteSinkHome", "DeleteSink"),
        *("GetTransaction", "DecideTransaction", "ResumeTransaction", "ResumeTransactionChecks"),
        *("GetCheckedTransaction", "ListTransactionChecks"),
    }
    # Whoever is not known yet proves by these who he is.
    proving = {"BeginLogin", "FinishLogin"}
    # And whoever is known may sign in to the console, in his own name.
    assert free == known | touching | proving | {"GetFilterServers", "CreateSignInLink"}


def test_handles_that_nobody_judges_are_refused():
    services, methods = every_method()
    with pytest.raises(AccessRuleMissing, match=r"AckMessages.*nobody asks"):
        method_rules(
            services, asked=[name for name in methods if not name.endswith("/AckMessages")]
        )


def test_a_decoder_of_our_own_needs_extractors():
    services, methods = every_method()
    with pytest.raises(AccessRuleMissing, match=r"AppendRecords.*table\.topics"):
        method_rules(services, asked=methods, extractors={APPEND: {"rows.topic": list}})


@pytest.fixture
def bare_service():
    """A service whose method states no rule."""
    file = descriptor_pb2.FileDescriptorProto(name="bare.proto", package="bare.v1")
    file.message_type.add(name="Nothing")
    service = file.service.add(name="BareService")
    service.method.add(name="Ask", input_type=".bare.v1.Nothing", output_type=".bare.v1.Nothing")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool.FindServiceByName("bare.v1.BareService")


def test_a_method_without_rule_is_named(bare_service):
    with pytest.raises(AccessRuleMissing, match=r"bare\.v1\.BareService\.Ask"):
        method_rules([bare_service])


async def test_a_server_with_such_a_method_is_not_built(bare_service, probe_app, serve):
    async with grpc.aio.insecure_channel("127.0.0.1:1"):
        services = (RpcService(bare_service, lambda servicer, server: None, object()),)
        type(probe_app).rpc_services, kept = services, type(probe_app).rpc_services
        try:
            with pytest.raises(AccessRuleMissing):
                async with serve(probe_app):
                    pass
        finally:
            type(probe_app).rpc_services = kept
