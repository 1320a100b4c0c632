"""What brokers say of a consumer group; asked again after a while."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from ariane.broker.v1.group_service_pb2 import ConsumerGroup, GetConsumerGroupRequest
from ariane_gateway.brokers.acting import USER
from ariane_gateway.brokers.cluster import Cluster
from ariane_gateway.brokers.single_flight import SingleFlight
from ariane_gateway.refusal_kinds import PASSING, Refusal
from ariane_gateway.refusals import Refused, refused_by
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.consumer.receiving.invisible_span import INVISIBLE_S_MAX
from ariane_sdk.errors import CallError, GroupNotFound

KEPT_S: Final = 10.0
"""How long an answer is good, in seconds."""

AGAIN_S: Final = 0.5
"""How long a broker may take where an older answer is at hand, in seconds."""

GROUPS_KEPT_MAX: Final = 10_000

_INT32_MAX: Final = (1 << 31) - 1

_DELAYS_S: Final = (
    10,
    30,
    *(60 * each for each in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)),
)
"""How long a message that failed waits before each attempt, by RocketMQ's table."""


class GroupRules(NamedTuple):
    """How messages of a group are handed out."""

    in_order: bool = False
    """Whether those of one message group come one after the other."""
    attempts_max: int = 17
    """How often each is handed out, before it becomes a dead letter."""
    delays_s: tuple[float, ...] = _DELAYS_S
    """How long one that failed waits before each further attempt, in seconds."""


class GroupCalls:
    """Asks any broker: all of them have the same settings of a group."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kept: dict[tuple[str, str], tuple[float, GroupRules]] = {}
        self._asking = SingleFlight[tuple[str, str], GroupRules]()
        self._silent: set[str] = set()

    async def rules(self, group: str) -> GroupRules:
        """The rules of a group; the defaults for one that does not exist yet.

        While no broker answers, they are as they were.

        Raises:
            Refused: No broker answered yet, or the user of the call may not see the group.
        """
        key = USER.get(), group
        kept = self._kept.get(key)
        if kept is not None and self._cluster.clock.monotonic_s() < kept[0]:
            return kept[1]
        timeout_s = self._cluster.timeout_s
        if kept is not None:
            timeout_s = min(timeout_s, AGAIN_S)
        try:
            return await self._asking.ask(key, partial(self._learn, key, timeout_s))
        except Refused as refused:
            if kept is None or refused.kind not in PASSING:
                raise
            return kept[1]

    def close(self) -> None:
        """Ask no more."""
        self._asking.close()

    async def _learn(self, key: tuple[str, str], timeout_s: float) -> GroupRules:
        rules = await self._ask(key[1], timeout_s)
        if len(self._kept) >= GROUPS_KEPT_MAX:
            self._kept.clear()
        self._kept[key] = self._cluster.clock.monotonic_s() + KEPT_S, rules
        return rules

    async def _ask(self, group: str, timeout_s: float) -> GroupRules:
        """Ask one broker after the other, until one answers: first those that answered before."""
        addresses = (await self._cluster.primaries()).values()
        refused = Refused(Refusal.UNAVAILABLE, "no broker is registered")
        for address in sorted(addresses, key=self._silent.__contains__):
            self._silent.add(address)  # Also for others, which ask of another group.
            try:
                rules = await self._ask_at(address, group, timeout_s)
            except CallError as error:
                refused = refused_by(error)
                if refused.kind in PASSING:
                    continue
                self._silent.discard(address)
                raise refused from error
            self._silent.discard(address)
            return rules
        raise refused

    async def _ask_at(self, address: str, group: str, timeout_s: float) -> GroupRules:
        call = self._cluster.acting.groups(address).GetConsumerGroup(
            GetConsumerGroupRequest(consumer_group=group), timeout=timeout_s
        )
        try:
            return _rules_of((await answer_of(call, f"broker at {address}")).group)
        except GroupNotFound:
            return GroupRules()


def _rules_of(group: ConsumerGroup) -> GroupRules:
    tries = group.ordered_attempts_max if group.receive_in_order else group.attempts_max
    # That counts the tries behind the first one; the largest number means no limit.
    attempts_max = min(tries + 1, _INT32_MAX)
    policy = group.retry_policy
    delays_s: tuple[float, ...] = _DELAYS_S
    if policy.WhichOneof("kind") == "table":
        delays_s = tuple(each.ToMilliseconds() / 1000 for each in policy.table.delays)
    elif policy.WhichOneof("kind") == "exponential":
        grows = policy.exponential
        first_s, max_s = grows.initial.ToMilliseconds() / 1000, grows.max.ToMilliseconds() / 1000
        factor = grows.multiplier or 2.0
        count = min(attempts_max, 100)
        delays_s = tuple(min((first_s or 5.0) * factor**n, max_s or 7200.0) for n in range(count))
    # The gateway takes no longer time from a client, which would repeat a refused one for ever.
    capped_s = tuple(min(delay_s, INVISIBLE_S_MAX) for delay_s in delays_s or _DELAYS_S)
    return GroupRules(group.receive_in_order, attempts_max, capped_s)
