"""The parts of admin that know users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from google.protobuf.descriptor import FileDescriptor

from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.admin.v1.access_policy_service_pb2_grpc import add_AccessPolicyServiceServicer_to_server
from ariane.admin.v1.user_service_pb2_grpc import add_UserServiceServicer_to_server
from ariane_admin.users.credential_store import CredentialStore
from ariane_admin.users.processes import AskedProcesses
from ariane_admin.users.servicers import AccessPolicyServicer, UserServicer
from ariane_admin.users.store import UserStore
from ariane_admin.users.teller import RulesTeller
from ariane_servicekit.clock import Clock
from ariane_servicekit.database import Database


class UserRoom:
    """Users, policies, and who tells them.

    Attributes:
        teller: Tells processes.
        services: Each with its file of the contract, and how it is added to a server.
    """

    def __init__(
        self,
        database: Database,
        processes: Callable[[], Awaitable[Collection[str]]],
        clock: Clock,
    ) -> None:
        """Build the parts.

        Args:
            database: Keeps users and policies.
            processes: Returns the addresses of all processes.
            clock: The clock.
        """
        store = UserStore(database)
        self.teller = RulesTeller(store, database, processes, clock)
        changed = self.teller.changed
        self.services: tuple[tuple[FileDescriptor, Callable[[Any, Any], None], object], ...] = (
            (
                policy_pb.DESCRIPTOR,
                add_AccessPolicyServiceServicer_to_server,
                AccessPolicyServicer(store, database, changed, AskedProcesses(processes)),
            ),
            (
                user_pb.DESCRIPTOR,
                add_UserServiceServicer_to_server,
                UserServicer(store, CredentialStore(database), database, changed),
            ),
        )
