"""The Python client of ArianeMQ."""

import logging

from ariane_sdk._message import (
    AcknowledgedLevel,
    Message,
    MessageQueue,
    ReceivedMessage,
    SendResult,
)
from ariane_sdk._producer import Producer
from ariane_sdk._settings import ConsumerSettings, ProducerSettings

__all__ = [
    "AcknowledgedLevel",
    "ConsumerSettings",
    "Message",
    "MessageQueue",
    "Producer",
    "ProducerSettings",
    "ReceivedMessage",
    "SendResult",
]

logging.getLogger("ariane_sdk").addHandler(logging.NullHandler())
