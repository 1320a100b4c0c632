"""``GroupService``: the consumer groups of this broker."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceServicer
from ariane_broker.consuming.group_deletion import GroupDeletion
from ariane_broker.groups.consumer_groups import (
    ConflictPolicy,
    ConsumerGroups,
    ExponentialRetry,
    GroupChange,
    GroupConfig,
    TableRetry,
)
from ariane_broker.groups.group_changes import GroupChanges
from ariane_broker.rpc.translation.wire_time import seconds_of, span_of
from ariane_servicekit import PageRequest, field_invalid, in_turns
from ariane_servicekit.security.gate.asking import require_create_group

_POLICIES: Final = {
    group_pb.SUBSCRIPTION_CONFLICT_POLICY_UNSPECIFIED: ConflictPolicy.REFUSE,
    group_pb.SUBSCRIPTION_CONFLICT_POLICY_REFUSE: ConflictPolicy.REFUSE,
    group_pb.SUBSCRIPTION_CONFLICT_POLICY_FLAG: ConflictPolicy.FLAG,
}
_POLICY_VALUES: Final = {
    ConflictPolicy.REFUSE: group_pb.SUBSCRIPTION_CONFLICT_POLICY_REFUSE,
    ConflictPolicy.FLAG: group_pb.SUBSCRIPTION_CONFLICT_POLICY_FLAG,
}


class GroupServicer(GroupServiceServicer):
    """Translates queries and changes of groups."""

    asked_methods: Final = frozenset({"UpdateConsumerGroup"})
    """Methods that ask for the rights on what their handles touch."""

    def __init__(
        self, groups: ConsumerGroups, changes: GroupChanges, deletion: GroupDeletion
    ) -> None:
        self._groups = groups
        self._changes = changes
        self._deletion = deletion

    async def CreateConsumerGroup(
        self, request: group_pb.CreateConsumerGroupRequest, context: aio.ServicerContext[Any, Any]
    ) -> group_pb.CreateConsumerGroupResponse:
        """Create a group."""
        config = await self._changes.create(_config(request.group))
        return group_pb.CreateConsumerGroupResponse(group=_group(config))

    async def GetConsumerGroup(
        self, request: group_pb.GetConsumerGroupRequest, context: aio.ServicerContext[Any, Any]
    ) -> group_pb.GetConsumerGroupResponse:
        """Read one group."""
        config = self._groups.get(request.consumer_group)
        return group_pb.GetConsumerGroupResponse(group=_group(config))

    async def ListConsumerGroups(
        self, request: group_pb.ListConsumerGroupsRequest, context: aio.ServicerContext[Any, Any]
    ) -> group_pb.ListConsumerGroupsResponse:
        """List groups by name."""
        wanted = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope="groups",
            kinds=(str,),
        )
        page = await wanted.page_in_turns(
            self._groups.walk(), lambda config: (config.consumer_group,)
        )
        return group_pb.ListConsumerGroupsResponse(
            groups=await in_turns(map(_group, page.entries)),
            next_page_token=page.next_page_token,
        )

    async def UpdateConsumerGroup(
        self, request: group_pb.UpdateConsumerGroupRequest, context: aio.ServicerContext[Any, Any]
    ) -> group_pb.UpdateConsumerGroupResponse:
        """Change settings of a group."""
        name = request.group.consumer_group
        if request.allow_missing and self._groups.find(name) is None:
            require_create_group(name)
        config = await self._changes.update(
            _change(request.group), allow_missing=request.allow_missing
        )
        return group_pb.UpdateConsumerGroupResponse(group=_group(config))

    async def DeleteConsumerGroup(
        self, request: group_pb.DeleteConsumerGroupRequest, context: aio.ServicerContext[Any, Any]
    ) -> group_pb.DeleteConsumerGroupResponse:
        """Delete a group with all its state."""
        deleted = await self._deletion.delete(
            request.consumer_group, keep_dead_letters=request.keep_dead_letters
        )
        return group_pb.DeleteConsumerGroupResponse(
            retry_message_count=deleted.retry_message_count,
            dead_letter_count=deleted.dead_letter_count,
        )


_DEFAULTED: Final = (
    "consume_enabled",
    "broadcast_enabled",
    "attempts_max",
    "ordered_attempts_max",
)
"""Settings that have their default where a request does not name them."""


def _config(group: group_pb.ConsumerGroup) -> GroupConfig:
    given: dict[str, Any] = {
        name: getattr(group, name) for name in _DEFAULTED if group.HasField(name)
    }
    return GroupConfig(
        consumer_group=group.consumer_group,
        **given,
        retry_policy=_retry_policy(group.retry_policy),
        conflict_policy=_conflict_policy(group.subscription_conflict_policy),
        receive_in_order=group.receive_in_order,
    )


def _change(group: group_pb.ConsumerGroupChange) -> GroupChange:
    def given(name: str) -> Any:
        return getattr(group, name) if group.HasField(name) else None  # type: ignore[arg-type]

    policy = group.subscription_conflict_policy
    return GroupChange(
        consumer_group=group.consumer_group,
        consume_enabled=given("consume_enabled"),
        broadcast_enabled=given("broadcast_enabled"),
        attempts_max=given("attempts_max"),
        ordered_attempts_max=given("ordered_attempts_max"),
        retry_policy=(
            _retry_policy(group.retry_policy) if group.HasField("retry_policy") else None
        ),
        conflict_policy=_conflict_policy(policy) if policy else None,
        receive_in_order=given("receive_in_order"),
    )


def _conflict_policy(value: group_pb.SubscriptionConflictPolicy.ValueType) -> ConflictPolicy:
    policy = _POLICIES.get(value)
    if policy is None:
        raise field_invalid("group.subscription_conflict_policy", "is not known", value)
    return policy


def _retry_policy(policy: group_pb.RetryPolicy) -> TableRetry | ExponentialRetry:
    if policy.HasField("exponential"):
        growth = policy.exponential
        return ExponentialRetry(
            initial_ms=_milliseconds(growth.initial, "initial"),
            max_ms=_milliseconds(growth.max, "max"),
            multiplier=growth.multiplier,
        )
    return TableRetry(tuple(_milliseconds(delay, "table") for delay in policy.table.delays))


def _milliseconds(span: Duration, field: str) -> int:
    return round(seconds_of(span, f"group.retry_policy.{field}") * 1000)


def _group(config: GroupConfig) -> group_pb.ConsumerGroup:
    return group_pb.ConsumerGroup(
        consumer_group=config.consumer_group,
        consume_enabled=config.consume_enabled,
        broadcast_enabled=config.broadcast_enabled,
        attempts_max=config.attempts_max,
        ordered_attempts_max=config.ordered_attempts_max,
        retry_policy=_retry_message(config.retry_policy),
        subscription_conflict_policy=_POLICY_VALUES[config.conflict_policy],
        version=config.version,
        receive_in_order=config.receive_in_order,
    )


def _retry_message(policy: TableRetry | ExponentialRetry) -> group_pb.RetryPolicy:
    if isinstance(policy, TableRetry):
        delays = [span_of(delay_ms / 1000) for delay_ms in policy.delays_ms]
        return group_pb.RetryPolicy(table=group_pb.DelayTable(delays=delays))
    return group_pb.RetryPolicy(
        exponential=group_pb.ExponentialDelay(
            initial=span_of(policy.initial_ms / 1000),
            max=span_of(policy.max_ms / 1000),
            multiplier=policy.multiplier,
        )
    )
