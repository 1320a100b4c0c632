"""The plan of a consumer, and the checks of the arguments that applications give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeAlias

from ariane_sdk.checks.limits import checked_topic
from ariane_sdk.checks.local_filter import Local
from ariane_sdk.checks.message_filter import MessageFilter, message_filter
from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.checks.uploaded_filter import Uploaded
from ariane_sdk.consumer.group.allocation import AllocationStrategy, Averaging
from ariane_sdk.consumer.group.pause_notice import PauseNotice
from ariane_sdk.consumer.offsets.start_position import StartPosition
from ariane_sdk.errors import IllegalArgument
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.security import PLAIN, Access
from ariane_sdk.settings import ConsumerSettings

MessageModel: TypeAlias = Literal["clustering", "broadcasting"]
"""Each message to one member of the group, or to every member."""


def checked_model(model: MessageModel) -> MessageModel:
    """Return a model if it is one.

    Raises:
        IllegalArgument: It is not one.
    """
    if model not in ("clustering", "broadcasting"):
        raise IllegalArgument(f'model {model!r}: "clustering" or "broadcasting"')
    return model


def checked_strategy(strategy: AllocationStrategy | None) -> AllocationStrategy:
    """Return a strategy if it is one; averaging for None.

    Raises:
        IllegalArgument: It is not one.
    """
    if strategy is None:
        return Averaging()
    divides = getattr(strategy, "allocate", None) or getattr(strategy, "allocate_among", None)
    is_named = isinstance(getattr(strategy, "name", None), str)
    if not callable(divides) or not is_named or isinstance(strategy, type):
        raise IllegalArgument(
            f"strategy {strategy!r:.100}: an object such as Averaging() is expected"
        )
    return strategy


def filters_of(
    subscriptions: Mapping[str, str | Sql | Uploaded | Local],
) -> dict[str, MessageFilter]:
    """The filters of subscriptions.

    Raises:
        IllegalArgument: The name of a topic or an expression is not legal.
    """
    if not isinstance(subscriptions, Mapping):
        raise IllegalArgument(
            f'subscriptions {subscriptions!r:.100}: a dict such as {{"orders": "*"}} is expected'
        )
    return {
        checked_topic(topic): message_filter(expression)
        for topic, expression in subscriptions.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerPlan:
    """The checked plan of a consumer."""

    addresses: Sequence[str]
    """The "host:port" of each name server."""
    client_id: str
    """The id under which brokers know the consumer."""
    group: str
    """The consumer group."""
    filters: dict[str, MessageFilter]
    """The filter of each topic; a consumer whose queues are assigned by hand adds topics."""
    start: StartPosition
    """The beginning in a topic that the group has never consumed."""
    model: MessageModel
    """Each message to one member, or to every member."""
    strategy: AllocationStrategy
    """How members share queues."""
    settings: ConsumerSettings
    """How the consumer behaves."""
    clock: Clock
    """Paces everything."""
    random: Random
    """Source of random numbers."""
    ordered: bool = False
    """Whether queues are consumed in order, under the broker's locks."""
    access: Access = PLAIN
    """How connections are made."""
    polls: bool = False
    """Whether the application polls for messages; otherwise a listener gets them."""
    pause: PauseNotice = field(default_factory=PauseNotice)
    """Says that an operator has paused the group."""
