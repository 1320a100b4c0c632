"""The broker serves its whole part of the contract, and says what is not there yet."""

from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.common.v1 import process_service_pb2 as process_pb
from ariane.common.v1.process_service_pb2_grpc import ProcessServiceStub
from ariane_broker.settings import BrokerSettings
from ariane_servicekit import settings_reference
from ariane_testkit.contract import contract_services, unimplemented_methods


def own_services():
    return {
        service.full_name: service
        for service in contract_services()
        if service.full_name.startswith("ariane.broker.v1.")
    }


async def test_reflection_lists_all_services(broker):
    stub = reflection_pb2_grpc.ServerReflectionStub(broker.channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    async for response in stub.ServerReflectionInfo(iter([request])):
        listed = {service.name for service in response.list_services_response.service}
    assert listed >= set(own_services())


async def test_health_of_each_service(broker):
    stub = health_pb2_grpc.HealthStub(broker.channel)
    for name in ("", *own_services()):
        response = await stub.Check(health_pb2.HealthCheckRequest(service=name))
        assert response.status == health_pb2.HealthCheckResponse.SERVING


async def test_every_method_of_the_contract_is_answered(broker):
    assert await unimplemented_methods(broker.channel, "ariane.broker.v1") == set()


async def test_settings_are_listed_by_the_process(broker):
    stub = ProcessServiceStub(broker.channel)
    response = await stub.ListProcessSettings(process_pb.ListProcessSettingsRequest())
    rows = {row.name: row for row in settings_reference(BrokerSettings)}
    listed = {setting.name: setting for setting in response.settings}
    assert list(listed) == sorted(rows)
    assert listed["flush_mode"].value == "async"
    assert listed["default_queue_count"].default_value == "4"
    assert all(setting.description for setting in response.settings)


async def test_the_state_of_a_new_broker(broker):
    state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
    assert state.identity.broker_name == "broker-a"
    assert state.identity.address == str(broker.address)
    assert state.writable
    assert state.store.refusal == ""
    assert state.store.flush_mode == "async"
    assert 0 < state.store.disk_used_ratio < 1
    assert list(state.recovery_findings) == []
