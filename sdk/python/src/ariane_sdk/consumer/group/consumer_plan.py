"""The plan of a consumer, and the checks of the arguments that applications give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, Self, TypeAlias

from ariane_sdk.checks.limits import checked_group, checked_topic
from ariane_sdk.checks.local_filter import Local
from ariane_sdk.checks.message_filter import MessageFilter, message_filter
from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.checks.uploaded_filter import Uploaded
from ariane_sdk.client.session import member_client_id
from ariane_sdk.consumer.group.allocation import AllocationStrategy, Averaging
from ariane_sdk.consumer.group.pause_notice import PauseNotice
from ariane_sdk.consumer.offsets.start_position import StartPosition, checked_start
from ariane_sdk.errors import IllegalArgument
from ariane_sdk.routing.name_servers import NameServerAddresses, parse_addresses
from ariane_sdk.runtime.clock import Clock, SystemClock, new_random
from ariane_sdk.security import PLAIN, Access, CredentialsGiven, TlsGiven, access_of
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

    @classmethod
    def checked(
        cls,
        name_servers: NameServerAddresses | None,
        *,
        group: str,
        subscriptions: Mapping[str, str | Sql | Uploaded | Local],
        start: StartPosition,
        model: MessageModel,
        strategy: AllocationStrategy | None,
        settings: ConsumerSettings,
        tls: TlsGiven,
        credentials: CredentialsGiven,
        clock: Clock | None,
        random: Random | None,
        ordered: bool = False,
        polls: bool = False,
    ) -> Self:
        """The plan of a consumer from its arguments, as applications give them.

        Raises:
            IllegalArgument: An address, a name, an expression or another argument is invalid.
        """
        random = random or new_random()
        return cls(
            filters=filters_of(subscriptions),
            addresses=parse_addresses(name_servers),
            access=access_of(tls, credentials),
            client_id=member_client_id(random, group, settings.member_name),
            group=checked_group(group),
            start=checked_start(start),
            model=checked_model(model),
            strategy=checked_strategy(strategy),
            settings=settings,
            clock=clock or SystemClock(),
            random=random,
            ordered=ordered,
            polls=polls,
        )
