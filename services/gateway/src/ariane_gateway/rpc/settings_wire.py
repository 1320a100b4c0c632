"""The settings that a client is told: what it said itself, and what the cluster wants."""

from __future__ import annotations

from typing import Final

from google.protobuf.duration_pb2 import Duration

from apache.rocketmq.v2.definition_pb2 import (
    CustomizedBackoff,
    ExponentialBackoff,
    Metric,
    RetryPolicy,
    Settings,
)
from ariane_gateway.brokers.group_calls import GroupRules

SEND_ATTEMPTS_MAX: Final = 3
RECEIVE_COUNT: Final = 32
HOLD_S: Final = 20
"""How long consumers are to let receives be held, in seconds."""


def producer_settings(given: Settings, *, body_bytes_max: int) -> Settings:
    """The settings of a producer."""
    settings = _copy_of(given)
    settings.backoff_policy.CopyFrom(
        RetryPolicy(
            max_attempts=SEND_ATTEMPTS_MAX,
            exponential_backoff=ExponentialBackoff(
                initial=_duration(0.01), max=_duration(1.0), multiplier=2.0
            ),
        )
    )
    settings.publishing.max_body_size = body_bytes_max
    settings.publishing.validate_message_type = True
    return settings


def consumer_settings(given: Settings, rules: GroupRules) -> Settings:
    """The settings of a consumer."""
    settings = _copy_of(given)
    settings.backoff_policy.CopyFrom(
        RetryPolicy(
            max_attempts=rules.attempts_max,
            customized_backoff=CustomizedBackoff(next=map(_duration, rules.delays_s)),
        )
    )
    subscription = settings.subscription
    subscription.fifo = rules.in_order
    subscription.receive_batch_size = RECEIVE_COUNT
    subscription.long_polling_timeout.CopyFrom(_duration(HOLD_S))
    return settings


def _copy_of(given: Settings) -> Settings:
    settings = Settings()
    settings.CopyFrom(given)
    # Some clients apply no settings that say nothing of metrics.
    settings.metric.CopyFrom(Metric(on=False))
    return settings


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(round(seconds * 1000))
    return duration
