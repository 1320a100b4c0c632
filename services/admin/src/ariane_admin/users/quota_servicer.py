"""``QuotaService``: limits of users, topics and addresses."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Network, ip_network
from typing import Any, Final

from grpc import aio

from ariane.admin.v1 import quota_service_pb2 as quota_pb
from ariane.admin.v1.quota_service_pb2_grpc import QuotaServiceServicer
from ariane.common.v1.quota_pb2 import Quota
from ariane_admin.asking.broker_readings import broker_state
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.users.policy_check import check_user_name
from ariane_admin.users.quota_store import QuotaStore
from ariane_sdk import LiveBroker
from ariane_servicekit import field_invalid, take_page
from ariane_servicekit.database import Database
from ariane_servicekit.security.limits.meter import ADDRESS, SUBJECTS_OF, USER

_Context = aio.ServicerContext[Any, Any]

_NAME_LENGTH_MAX: Final = 255

_V6_HOST_BITS: Final = 64
"""Connections over IPv6 are counted by such networks: one host takes any address of its own."""


class QuotaServicer(QuotaServiceServicer):
    """Translates questions about quotas, and their changes.

    Args:
        store: The quotas.
        database: The database, whose threads read and write.
        changed: Called after each change, so that processes get it at once.
        cluster: The brokers, which say what is used.
    """

    def __init__(
        self,
        store: QuotaStore,
        database: Database,
        changed: Callable[[], None],
        cluster: ClusterAccess,
    ) -> None:
        self._store = store
        self._database = database
        self._changed = changed
        self._cluster = cluster

    async def before(self, method: str, request: Any) -> Quota | None:
        """The quota before a change."""
        return await self._database.call(self._store.find, request.quota)

    async def ListQuotas(
        self, request: quota_pb.ListQuotasRequest, context: _Context
    ) -> quota_pb.ListQuotasResponse:
        """List quotas."""
        page = take_page(
            await self._database.call(self._store.quotas),
            lambda each: (int(each.figure), int(each.subject), each.name),
            page_size=request.page_size,
            page_token=request.page_token,
            scope="quotas",
        )
        return quota_pb.ListQuotasResponse(
            quotas=page.entries, next_page_token=page.next_page_token
        )

    async def ListQuotaUses(
        self, request: quota_pb.ListQuotaUsesRequest, context: _Context
    ) -> quota_pb.ListQuotaUsesResponse:
        """List what is used of quotas at each broker."""

        async def at(broker: LiveBroker) -> list[quota_pb.BrokerQuotaUse]:
            state = await broker_state(self._cluster.doors, broker)
            name = broker.broker_name
            return [quota_pb.BrokerQuotaUse(broker_name=name, use=use) for use in state.quota_uses]

        answers = await self._cluster.answers()
        uses = [use for of_broker in await answers.ask(at) for use in of_broker]
        page = self._cluster.page(sorted(uses, key=_urgency), _urgency, request, scope="quota uses")
        return quota_pb.ListQuotaUsesResponse(
            uses=page.entries,
            next_page_token=page.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def SetQuota(
        self, request: quota_pb.SetQuotaRequest, context: _Context
    ) -> quota_pb.SetQuotaResponse:
        """Set a quota."""
        quota = _checked(request.quota)
        if quota.limit < 1:
            raise field_invalid("quota.limit", "must be at least 1", quota.limit)
        await self._database.call(self._store.put, quota)
        self._changed()
        return quota_pb.SetQuotaResponse(quota=quota)

    async def DeleteQuota(
        self, request: quota_pb.DeleteQuotaRequest, context: _Context
    ) -> quota_pb.DeleteQuotaResponse:
        """Delete a quota."""
        known = await self._database.call(self._store.delete, _checked(request.quota))
        self._changed()
        return quota_pb.DeleteQuotaResponse(known=known)


def _urgency(found: quota_pb.BrokerQuotaUse) -> tuple[str | int, ...]:
    """The order of uses: who is refused, who is slowed, and then who uses the largest part."""
    use = found.use
    kept_back = 0 if use.refusing else 1 if use.HasField("age_duration") else 2
    part = use.used * 1000 // max(1, use.quota.limit)
    key = (int(use.quota.figure), int(use.quota.subject), use.quota.name, found.broker_name)
    return (kept_back, -part, *key)


def _checked(quota: Quota) -> Quota:
    """Return a quota that makes sense, its network in its one form.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    subjects = SUBJECTS_OF.get(quota.figure)
    if subjects is None:
        raise field_invalid("quota.figure", "must be one that there is")
    if quota.subject not in subjects:
        raise field_invalid("quota.subject", "must be one that the figure has")
    name = quota.name
    if len(name) > _NAME_LENGTH_MAX or (name and not name.isprintable()):
        raise field_invalid("quota.name", f"must be at most {_NAME_LENGTH_MAX} printed characters")
    if quota.subject == USER and name:
        check_user_name(name, "quota.name")
    if quota.subject == ADDRESS and name:
        try:
            network = ip_network(name)
        except ValueError:
            raise field_invalid(
                "quota.name", "must be a network such as 10.1.0.0/16", name
            ) from None
        if isinstance(network, IPv6Network) and network.prefixlen > _V6_HOST_BITS:
            raise field_invalid("quota.name", "must be wider: a host of IPv6 is a /64", name)
        name = str(network)
    return Quota(figure=quota.figure, subject=quota.subject, name=name, limit=quota.limit)
