"""The parts of admin that know users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from google.protobuf.descriptor import FileDescriptor

from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1 import gateway_key_service_pb2 as key_pb
from ariane.admin.v1 import quota_service_pb2 as quota_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.admin.v1.access_policy_service_pb2_grpc import add_AccessPolicyServiceServicer_to_server
from ariane.admin.v1.gateway_key_service_pb2_grpc import add_GatewayKeyServiceServicer_to_server
from ariane.admin.v1.quota_service_pb2_grpc import add_QuotaServiceServicer_to_server
from ariane.admin.v1.user_service_pb2_grpc import add_UserServiceServicer_to_server
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.users.credential_store import CredentialStore
from ariane_admin.users.gateway_keys import GatewayKeyServicer
from ariane_admin.users.processes import AskedProcesses
from ariane_admin.users.quota_servicer import QuotaServicer
from ariane_admin.users.quota_store import QuotaStore
from ariane_admin.users.rules_publisher import RulesPublisher
from ariane_admin.users.secret_seal import SecretSeal
from ariane_admin.users.servicers import AccessPolicyServicer, UserServicer
from ariane_admin.users.store import UserStore
from ariane_servicekit.clock import Clock
from ariane_servicekit.database import Database


class UserRoom:
    """Users, policies, and who tells them."""

    def __init__(
        self,
        database: Database,
        processes: Callable[[], Awaitable[Collection[str]]],
        clock: Clock,
        *,
        cluster: ClusterAccess,
        seal: SecretSeal | None,
        insecure: bool,
    ) -> None:
        """Build the parts.

        Args:
            database: Keeps users and policies.
            processes: Returns the addresses of all processes.
            clock: The clock.
            cluster: The brokers.
            seal: Seals secrets; None where none are taken.
            insecure: Whether secrets are taken in plain text from other machines.
        """
        store = UserStore(database)
        self.credentials = CredentialStore(database, seal)
        """What users prove their names by."""
        self.publisher = RulesPublisher(store, database, processes, clock)
        """Tells processes."""
        changed = self.publisher.changed
        gateway_keys = GatewayKeyServicer(self.credentials, database, self.publisher)
        self.services: tuple[tuple[FileDescriptor, Callable[[Any, Any], None], object], ...] = (
            (
                policy_pb.DESCRIPTOR,
                add_AccessPolicyServiceServicer_to_server,
                AccessPolicyServicer(store, database, changed, AskedProcesses(processes)),
            ),
            (
                quota_pb.DESCRIPTOR,
                add_QuotaServiceServicer_to_server,
                QuotaServicer(QuotaStore(database), database, changed, cluster),
            ),
            (
                key_pb.DESCRIPTOR,
                add_GatewayKeyServiceServicer_to_server,
                gateway_keys,
            ),
            (
                user_pb.DESCRIPTOR,
                add_UserServiceServicer_to_server,
                UserServicer(store, self.credentials, database, changed, insecure=insecure),
            ),
        )
        """Each with its file of the contract, and how it is added to a server."""
