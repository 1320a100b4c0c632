"""The properties that belong to the system."""

from __future__ import annotations

from typing import Final

from ariane_sdk.errors import MessageIllegal
from ariane_sdk.message import Message, SystemMessage

RESERVED_PROPERTIES: Final = frozenset(
    {
        "BUYER_ID",
        "CLUSTER",
        "CONSUME_START_TIME",
        "CORRELATION_ID",
        "DELAY",
        "DLQ_ORIGIN_MESSAGE_ID",
        "DLQ_ORIGIN_TOPIC",
        "EXPIRES_AT_MS",
        "EXTEND_UNIQ_INFO",
        "INNER_NUM",
        "INSTANCE_ID",
        "MAX_OFFSET",
        "MAX_RECONSUME_TIMES",
        "MIN_OFFSET",
        "MSG_REGION",
        "MSG_TYPE",
        "ORIGIN_MESSAGE_ID",
        "PGROUP",
        "REAL_QID",
        "REAL_TOPIC",
        "RECONSUME_TIME",
        "REPLY_TO_CLIENT",
        "RETRY_TOPIC",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS",
        "TIMER_DEL_UNIQKEY",
        "TIMER_OUT_MS",
        "TRACE_ON",
        "TRANSACTION_CHECK_TIMES",
        "TRANSFER_FLAG",
        "TRAN_FIRST_STORED_MS",
        "TRAN_MSG",
        "TRAN_OUTCOME",
        "TRAN_PARKED",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "TTL",
        "WAIT",
        "__PSEQ#",
        "__transactionId__",
    }
)
"""Properties that the system reads or writes: RocketMQ's ``MessageConst.STRING_HASH_SET`` and those
of ArianeMQ."""


def check_property_names(message: Message) -> None:
    """Refuse properties with names that belong to the system.

    Raises:
        MessageIllegal: There are such properties.
    """
    if isinstance(message, SystemMessage):
        return
    if not RESERVED_PROPERTIES.isdisjoint(message.properties):
        names = ", ".join(sorted(RESERVED_PROPERTIES.intersection(message.properties)))
        raise MessageIllegal(f"properties of the system may not be set: {names}")
