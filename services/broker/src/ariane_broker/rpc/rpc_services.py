"""The generated half of each service: its descriptor, and how it is added to a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ariane.broker.v1 import (
    broker_service_pb2,
    broker_service_pb2_grpc,
    client_service_pb2,
    client_service_pb2_grpc,
    group_service_pb2,
    group_service_pb2_grpc,
    offset_service_pb2,
    offset_service_pb2_grpc,
    pull_service_pb2,
    pull_service_pb2_grpc,
    query_service_pb2,
    query_service_pb2_grpc,
    receive_service_pb2,
    receive_service_pb2_grpc,
    retry_service_pb2,
    retry_service_pb2_grpc,
    send_service_pb2,
    send_service_pb2_grpc,
    sink_service_pb2,
    sink_service_pb2_grpc,
    topic_service_pb2,
    topic_service_pb2_grpc,
    transaction_service_pb2,
    transaction_service_pb2_grpc,
)
from ariane.filter.v1 import (
    filter_registration_service_pb2,
    filter_registration_service_pb2_grpc,
)
from ariane.replication.v1 import (
    log_service_pb2,
    log_service_pb2_grpc,
    replica_set_service_pb2,
    replica_set_service_pb2_grpc,
    state_service_pb2,
    state_service_pb2_grpc,
)
from ariane_broker.rpc.not_primary import NotPrimary
from ariane_broker.rpc.translation.append_wire import APPEND_NAMES, append_request
from ariane_servicekit import RpcService

CLIENTS: Final[dict[str, tuple[Any, Callable[[Any, Any], None]]]] = {
    "BrokerService": (
        broker_service_pb2.DESCRIPTOR,
        broker_service_pb2_grpc.add_BrokerServiceServicer_to_server,
    ),
    "ClientService": (
        client_service_pb2.DESCRIPTOR,
        client_service_pb2_grpc.add_ClientServiceServicer_to_server,
    ),
    "FilterRegistrationService": (
        filter_registration_service_pb2.DESCRIPTOR,
        filter_registration_service_pb2_grpc.add_FilterRegistrationServiceServicer_to_server,
    ),
    "GroupService": (
        group_service_pb2.DESCRIPTOR,
        group_service_pb2_grpc.add_GroupServiceServicer_to_server,
    ),
    "OffsetService": (
        offset_service_pb2.DESCRIPTOR,
        offset_service_pb2_grpc.add_OffsetServiceServicer_to_server,
    ),
    "PullService": (
        pull_service_pb2.DESCRIPTOR,
        pull_service_pb2_grpc.add_PullServiceServicer_to_server,
    ),
    "QueryService": (
        query_service_pb2.DESCRIPTOR,
        query_service_pb2_grpc.add_QueryServiceServicer_to_server,
    ),
    "ReceiveService": (
        receive_service_pb2.DESCRIPTOR,
        receive_service_pb2_grpc.add_ReceiveServiceServicer_to_server,
    ),
    "RetryService": (
        retry_service_pb2.DESCRIPTOR,
        retry_service_pb2_grpc.add_RetryServiceServicer_to_server,
    ),
    "SendService": (
        send_service_pb2.DESCRIPTOR,
        send_service_pb2_grpc.add_SendServiceServicer_to_server,
    ),
    "SinkService": (
        sink_service_pb2.DESCRIPTOR,
        sink_service_pb2_grpc.add_SinkServiceServicer_to_server,
    ),
    "TopicService": (
        topic_service_pb2.DESCRIPTOR,
        topic_service_pb2_grpc.add_TopicServiceServicer_to_server,
    ),
    "TransactionService": (
        transaction_service_pb2.DESCRIPTOR,
        transaction_service_pb2_grpc.add_TransactionServiceServicer_to_server,
    ),
}


"""The services that clients call."""

REPLICATION: Final[dict[str, tuple[Any, Callable[[Any, Any], None]]]] = {
    "LogService": (
        log_service_pb2.DESCRIPTOR,
        log_service_pb2_grpc.add_LogServiceServicer_to_server,
    ),
    "ReplicaSetService": (
        replica_set_service_pb2.DESCRIPTOR,
        replica_set_service_pb2_grpc.add_ReplicaSetServiceServicer_to_server,
    ),
    "StateService": (
        state_service_pb2.DESCRIPTOR,
        state_service_pb2_grpc.add_StateServiceServicer_to_server,
    ),
}
"""The services of brokers with replicas."""


_DECODERS: Final[dict[str, dict[str, Callable[[bytes], Any]]]] = {
    "SendService": {"AppendRecords": append_request},
}
"""Decoders for requests of which generated code would copy the blocks."""


_EXTRACTORS: Final = {"SendService": {"AppendRecords": APPEND_NAMES}}
"""What finds the names in requests that these have decoded."""


def rpc_service(name: str, servicer: object) -> RpcService:
    """A service of the contract with the servicer that answers for it.

    Args:
        name: Of the service, without its package.
        servicer: What answers.
    """
    file, add = CLIENTS.get(name) or REPLICATION[name]
    descriptor = file.services_by_name[name]
    # What refuses everything touches nothing: there are no rights to ask for.
    refused = descriptor.methods_by_name if type(servicer) is NotPrimary else ()
    return RpcService(
        descriptor,
        add,
        servicer,
        _DECODERS.get(name, {}),
        extractors=_EXTRACTORS.get(name, {}),
        asked=frozenset(refused),
    )
