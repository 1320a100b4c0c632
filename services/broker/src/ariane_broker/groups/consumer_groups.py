"""The consumer groups of this broker and their settings.

As with topics, a change is made durable first and visible then. ``config/subscriptionGroup.json``
has RocketMQ's shape; fields that only RocketMQ uses are kept unchanged::

    {"dataVersion": {...}, "forbiddenTable": {},
     "subscriptionGroupTable": {"billing": {"groupName": "billing", "retryMaxTimes": 16, ...}}}

RocketMQ accepts any number. One that has no sense here becomes the nearest one that has, and is
logged: a group must not keep the broker from starting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final

from ariane_broker.durable.data_version import DataVersion
from ariane_broker.errors.public_errors import group_exists, group_not_found
from ariane_servicekit import at_once, get_logger
from ariane_servicekit.errors import field_invalid

_log = get_logger(__name__)

ATTEMPTS_MAX: Final = (1 << 31) - 1
"""The largest limit of attempts: none."""

DELAYS_MAX: Final = 100
_DELAY_MS_MAX: Final = 366 * 86_400_000
CONFLICT_ATTRIBUTE: Final = "subscription.conflict"
ORDERED_ATTRIBUTE: Final = "ordered.attempts.max"

_TABLE_SKIPPED: Final = 2
"""RocketMQ's delay before the first retry is the third entry of its table."""

_FRESH_ENTRY: Final[Mapping[str, Any]] = {
    "attributes": {},
    "brokerId": 0,
    "consumeFromMinEnable": True,
    "consumeTimeoutMinute": 15,
    "groupSysFlag": 0,
    "notifyConsumerIdsChangedEnable": True,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}


class ConflictPolicy(StrEnum):
    """What happens to a member whose subscription differs from its group's."""

    REFUSE = "refuse"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class TableRetry:
    """Delays from a table; the last one repeats."""

    delays_ms: tuple[int, ...] = ()
    """Delay before each retry; empty for those of the delay levels from the third on."""

    def __post_init__(self) -> None:
        """Check the table.

        Raises:
            ServiceError: FIELD_INVALID.
        """
        if len(self.delays_ms) > DELAYS_MAX or min(self.delays_ms, default=0) < 0:
            raise field_invalid(
                "retry_policy.table", f"has 0 to {DELAYS_MAX} delays, none negative"
            )


@dataclass(frozen=True, slots=True)
class ExponentialRetry:
    """Delays that grow by a factor."""

    initial_ms: int = 5_000
    """Delay before the first retry."""
    max_ms: int = 7_200_000
    """Upper bound."""
    multiplier: float = 2.0
    """Factor from one delay to the next."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ServiceError: FIELD_INVALID.
        """
        if not 0 < self.initial_ms <= self.max_ms or not 1 <= self.multiplier <= 1000:
            raise field_invalid(
                "retry_policy.exponential", "needs 0 < initial <= max and 1 <= multiplier <= 1000"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One consumer group on this broker."""

    consumer_group: str
    """The name."""
    consume_enabled: bool = True
    """Whether the group may consume at all."""
    broadcast_enabled: bool = True
    """Whether broadcasting is allowed."""
    attempts_max: int = 16
    """Retries of a failed message before it becomes a dead letter."""
    ordered_attempts_max: int = ATTEMPTS_MAX
    """The same of a message that is consumed or received in order."""
    retry_policy: TableRetry | ExponentialRetry = field(default_factory=TableRetry)
    """How the delay between tries grows."""
    conflict_policy: ConflictPolicy = ConflictPolicy.REFUSE
    """What happens to a member whose subscription differs."""
    receive_in_order: bool = False
    """Whether receiving members get the messages of a group one after the other."""
    version: int = 0
    """Grows with each change."""
    entry: Mapping[str, Any] = field(default_factory=lambda: dict(_FRESH_ENTRY))
    """The group's entry in the file, including fields that only RocketMQ uses."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ServiceError: FIELD_INVALID.
        """
        for name in ("attempts_max", "ordered_attempts_max"):
            if not 0 <= getattr(self, name) <= ATTEMPTS_MAX:
                raise field_invalid(name, f"must be 0 to {ATTEMPTS_MAX}", getattr(self, name))

    @property
    def receive_attempts_max(self) -> int:
        """Retries of a message that members receive."""
        return self.ordered_attempts_max if self.receive_in_order else self.attempts_max


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """A change of a group; None for fields that stay unchanged."""

    consumer_group: str
    """The group."""
    consume_enabled: bool | None = None
    """As in ``GroupConfig``, and so the others."""
    broadcast_enabled: bool | None = None
    attempts_max: int | None = None
    ordered_attempts_max: int | None = None
    retry_policy: TableRetry | ExponentialRetry | None = None
    conflict_policy: ConflictPolicy | None = None
    receive_in_order: bool | None = None

    def of(self, config: GroupConfig) -> GroupConfig:
        """The group with the change.

        Raises:
            ServiceError: FIELD_INVALID.
        """
        settings = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(config, **{name: it for name, it in settings.items() if it is not None})


class ConsumerGroups:
    """All consumer groups of this broker, in memory."""

    def __init__(self, *, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._groups: dict[str, GroupConfig] = {}
        self._version = DataVersion()
        self._foreign: dict[str, Any] = {"forbiddenTable": {}}

    def __len__(self) -> int:
        return len(self._groups)

    def find(self, consumer_group: str) -> GroupConfig | None:
        """Return the group, or None if the broker does not know it."""
        return self._groups.get(consumer_group)

    def get(self, consumer_group: str) -> GroupConfig:
        """Return the group.

        Raises:
            ServiceError: GROUP_NOT_FOUND.
        """
        config = self._groups.get(consumer_group)
        if config is None:
            raise group_not_found(consumer_group)
        return config

    def all(self) -> list[GroupConfig]:
        """All groups by name."""
        return [self._groups[name] for name in sorted(self._groups)]

    def walk(self) -> Iterator[GroupConfig]:
        """All groups as they are now, in any order."""
        return iter(list(self._groups.values()))

    def created(self, config: GroupConfig) -> GroupConfig:
        """The new group as it would be; nothing is changed yet.

        Raises:
            ServiceError: GROUP_EXISTS.
        """
        if config.consumer_group in self._groups:
            raise group_exists(config.consumer_group)
        return replace(config, version=self._version.counter + 1)

    def updated(self, change: GroupChange) -> GroupConfig:
        """The group as it would be with a change; nothing is changed yet.

        Raises:
            ServiceError: GROUP_NOT_FOUND or FIELD_INVALID.
        """
        changed = change.of(self.get(change.consumer_group))
        return replace(changed, version=self._version.counter + 1)

    def document_with(self, *configs: GroupConfig, without: str | None = None) -> dict[str, Any]:
        """The same as ``documented_with``, at once: before the broker serves."""
        (document,) = at_once(self.documented_with(*configs, without=without))
        return document

    def documented_with(
        self, *configs: GroupConfig, without: str | None = None
    ) -> Iterator[dict[str, Any] | None]:
        """The file's content with these groups added or replaced, or one removed.

        Yields once for each group before. Groups must not change meanwhile.
        """
        groups = self._groups | {config.consumer_group: config for config in configs}
        if without is not None:
            groups.pop(without, None)
        entries = {}
        for name in sorted(groups):
            entries[name] = _entry(groups[name])
            yield None
        yield self._foreign | {
            "dataVersion": self._version.next(self._now_ms()).document(),
            "subscriptionGroupTable": entries,
        }

    def put(self, *configs: GroupConfig) -> None:
        """Make groups visible, new or changed."""
        for config in configs:
            self._groups[config.consumer_group] = config
        self._version = self._version.next(self._now_ms())

    def remove(self, consumer_group: str) -> None:
        """Make a group invisible."""
        del self._groups[consumer_group]
        self._version = self._version.next(self._now_ms())

    def load(self, document: Mapping[str, Any]) -> None:
        """Load the content of a file.

        Raises:
            KeyError, TypeError, ValueError: The file has another shape.
        """
        self._version = DataVersion.from_document(document.get("dataVersion") or {})
        self._foreign = dict(document)
        self._groups = {
            name: _config(name, entry, self._version.counter)
            for name, entry in document["subscriptionGroupTable"].items()
        }


def _entry(config: GroupConfig) -> dict[str, Any]:
    attributes = dict(config.entry.get("attributes") or {})
    attributes.pop(CONFLICT_ATTRIBUTE, None)
    if config.conflict_policy is not ConflictPolicy.REFUSE:
        attributes[CONFLICT_ATTRIBUTE] = config.conflict_policy.value
    attributes.pop(ORDERED_ATTRIBUTE, None)
    if config.ordered_attempts_max != ATTEMPTS_MAX:
        attributes[ORDERED_ATTRIBUTE] = str(config.ordered_attempts_max)
    return dict(config.entry) | {
        "attributes": attributes,
        "consumeBroadcastEnable": config.broadcast_enabled,
        "consumeEnable": config.consume_enabled,
        "consumeMessageOrderly": config.receive_in_order,
        "groupName": config.consumer_group,
        "groupRetryPolicy": _retry_entry(config.retry_policy),
        "retryMaxTimes": config.attempts_max,
        "version": config.version,
    }


def _retry_entry(policy: TableRetry | ExponentialRetry) -> dict[str, Any]:
    if isinstance(policy, ExponentialRetry):
        growth = {
            "initial": policy.initial_ms,
            "max": policy.max_ms,
            "multiplier": policy.multiplier,
        }
        return {"type": "EXPONENTIAL", "exponentialRetryPolicy": growth}
    if policy.delays_ms:
        first = policy.delays_ms[:1]
        table = {"next": [*first * _TABLE_SKIPPED, *policy.delays_ms]}
        return {"type": "CUSTOMIZED", "customizedRetryPolicy": table}
    return {"type": "CUSTOMIZED"}


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Makes numbers of a group's entry fit."""

    consumer_group: str

    def within(self, name: str, value: float, least: float, most: float) -> float:
        """The nearest number that has a sense."""
        fitting = min(max(least, value), most)
        if fitting != value:
            _log.warning(
                "group_setting_out_of_range",
                consumer_group=self.consumer_group,
                setting=name,
                value=value,
                used=fitting,
            )
        return fitting

    def delay_ms(self, name: str, value: float, least: int = 0) -> int:
        return int(self.within(name, int(value), least, _DELAY_MS_MAX))


def _retry_policy(entry: Mapping[str, Any], bounds: _Bounds) -> TableRetry | ExponentialRetry:
    if entry.get("type") == "EXPONENTIAL":
        growth = entry.get("exponentialRetryPolicy") or {}
        initial_ms = bounds.delay_ms("initial", growth.get("initial", 5_000), 1)
        return ExponentialRetry(
            initial_ms=initial_ms,
            max_ms=bounds.delay_ms("max", growth.get("max", 7_200_000), initial_ms),
            multiplier=bounds.within("multiplier", float(growth.get("multiplier", 2)), 1, 1000),
        )
    table = entry.get("customizedRetryPolicy") or {}
    delays_ms = tuple(bounds.delay_ms("next", delay) for delay in table.get("next") or ())
    count = int(bounds.within("next", len(delays_ms), 0, _TABLE_SKIPPED + DELAYS_MAX))
    return TableRetry(delays_ms[_TABLE_SKIPPED:count] or delays_ms[-1:])


def _config(name: str, entry: Mapping[str, Any], newest_version: int) -> GroupConfig:
    attributes = entry.get("attributes") or {}
    bounds = _Bounds(name)
    flagged = attributes.get(CONFLICT_ATTRIBUTE) == ConflictPolicy.FLAG.value
    return GroupConfig(
        consumer_group=name,
        consume_enabled=bool(entry.get("consumeEnable", True)),
        broadcast_enabled=bool(entry.get("consumeBroadcastEnable", True)),
        attempts_max=int(
            bounds.within("retryMaxTimes", int(entry.get("retryMaxTimes", 16)), 0, ATTEMPTS_MAX)
        ),
        ordered_attempts_max=int(
            bounds.within(
                ORDERED_ATTRIBUTE,
                int(attributes.get(ORDERED_ATTRIBUTE, ATTEMPTS_MAX)),
                0,
                ATTEMPTS_MAX,
            )
        ),
        retry_policy=_retry_policy(entry.get("groupRetryPolicy") or {}, bounds),
        conflict_policy=ConflictPolicy.FLAG if flagged else ConflictPolicy.REFUSE,
        receive_in_order=bool(entry.get("consumeMessageOrderly", False)),
        version=int(entry.get("version", newest_version)),
        entry=dict(entry),
    )
