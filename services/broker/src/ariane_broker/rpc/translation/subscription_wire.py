"""Conversion of subscriptions and memberships from and to messages of the contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_broker.clients.attached_client import Hello
from ariane_broker.clients.members.membership import ConsumeModel, Membership
from ariane_broker.clients.subscription import Subscription
from ariane_broker.filters.expression import ALL_MESSAGES, FilterExpression, FilterLanguage
from ariane_broker.rpc.translation.wire_time import seconds_of, span_of
from ariane_servicekit.errors import field_invalid

KEEP_SECONDS_MAX: Final = 3600.0
"""The longest time for which a member's place is kept."""

_LANGUAGES: Final = {
    subscription_pb.FILTER_KIND_TAG: FilterLanguage.TAG,
    subscription_pb.FILTER_KIND_SQL92: FilterLanguage.SQL92,
    subscription_pb.FILTER_KIND_UPLOADED: FilterLanguage.UPLOADED,
}
_KINDS: Final = {language: kind for kind, language in _LANGUAGES.items()}

_MODELS: Final = {
    client_pb.CONSUME_MODEL_UNSPECIFIED: ConsumeModel.CLUSTERING,
    client_pb.CONSUME_MODEL_CLUSTERING: ConsumeModel.CLUSTERING,
    client_pb.CONSUME_MODEL_BROADCASTING: ConsumeModel.BROADCASTING,
    client_pb.CONSUME_MODEL_RECEIVING: ConsumeModel.RECEIVING,
}
_MODEL_VALUES: Final = {model: value for value, model in _MODELS.items() if value}


def filter_of(expression: subscription_pb.FilterExpression) -> FilterExpression:
    """Convert a filter of the contract; without kind and text it means all messages.

    Raises:
        ServiceError: FIELD_INVALID for an unknown kind, or a text without one.
    """
    if expression.kind == subscription_pb.FILTER_KIND_UNSPECIFIED:
        if expression.text:
            raise field_invalid("filter.kind", "is required with a text", expression.text)
        return ALL_MESSAGES
    language = _LANGUAGES.get(expression.kind)
    if language is None:
        raise field_invalid("filter.kind", "is not known", expression.kind)
    return FilterExpression(language, expression.text, expression.version)


def filters_of(
    subscriptions: Iterable[subscription_pb.Subscription],
) -> dict[str, FilterExpression]:
    """Filters by topic.

    Raises:
        ServiceError: FIELD_INVALID for an unknown kind.
    """
    return {subscription.topic: filter_of(subscription.filter) for subscription in subscriptions}


def hello_of(hello: client_pb.ClientHello) -> Hello:
    """Convert the hello of a client.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    return Hello(
        client_id=hello.client_id,
        language=hello.language,
        sdk_version=hello.sdk_version,
        producer_groups=tuple(hello.producer_groups),
        memberships=memberships_of(hello.memberships),
        reads_records=hello.reads_records,
        incarnation=hello.incarnation,
    )


def memberships_of(memberships: Iterable[client_pb.Membership]) -> tuple[Membership, ...]:
    """Convert the memberships of a client.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    return tuple(map(_membership_of, memberships))


def _membership_of(membership: client_pb.Membership) -> Membership:
    model = _MODELS.get(membership.model)
    if model is None:
        raise field_invalid("memberships.model", "is not known", membership.model)
    return Membership(
        consumer_group=membership.consumer_group,
        model=model,
        subscriptions=tuple(
            Subscription(subscription.topic, filter_of(subscription.filter))
            for subscription in membership.subscriptions
        ),
        ordered=membership.ordered,
        strategy=membership.strategy,
        zone=membership.zone,
        owned=tuple(
            (owned.topic, owned.broker_name, tuple(owned.queue_ids))
            for owned in membership.owned_queues
        ),
        keep_seconds=_keep_seconds(membership),
        polls=membership.polls,
    )


def _keep_seconds(membership: client_pb.Membership) -> float:
    seconds = seconds_of(membership.keep, "memberships.keep")
    if seconds > KEEP_SECONDS_MAX:
        raise field_invalid("memberships.keep", f"must be at most {KEEP_SECONDS_MAX:g} s", seconds)
    return seconds


def membership_message(membership: Membership) -> client_pb.Membership:
    """A client's membership, as a message for other members."""
    return client_pb.Membership(
        consumer_group=membership.consumer_group,
        model=_MODEL_VALUES[membership.model],
        subscriptions=[
            subscription_pb.Subscription(
                topic=subscription.topic,
                filter=subscription_pb.FilterExpression(
                    kind=_KINDS[subscription.filter.language],
                    text=subscription.filter.text,
                    version=subscription.filter.version,
                ),
            )
            for subscription in membership.subscriptions
        ],
        ordered=membership.ordered,
        strategy=membership.strategy,
        zone=membership.zone,
        owned_queues=[
            client_pb.OwnedQueues(topic=topic, broker_name=broker_name, queue_ids=queue_ids)
            for topic, broker_name, queue_ids in membership.owned
        ],
        keep=span_of(membership.keep_seconds) if membership.keep_seconds else None,
        polls=membership.polls,
    )
