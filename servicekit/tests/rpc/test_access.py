from __future__ import annotations

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from ariane.common.v1 import access_pb2
from ariane_servicekit import RpcService
from ariane_servicekit.rpc.access import AccessRuleMissing, access_rules
from ariane_testkit.contract import contract_services


def test_every_method_of_the_contract_states_its_access_rule():
    services = list(contract_services())
    assert len(services) >= 13
    rules = access_rules(services)
    assert len(rules) == sum(len(service.methods) for service in services)
    rule = rules["/ariane.broker.v1.SendService/AppendRecords"]
    assert rule.action == access_pb2.ACTION_PUBLISH
    assert rule.resource == access_pb2.RESOURCE_TOPIC


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
        access_rules([bare_service])


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
