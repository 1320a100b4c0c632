"""The rules for names of topics and consumer groups.

A user's name has only letters, digits, ``_``, ``-``, ``%`` and ``|``. The system has names of its
own, which no user may use: ``%RETRY%`` and ``%DLQ%`` before the name of a group, and the topics and
groups listed here. All of it is the same as in RocketMQ.
"""

from __future__ import annotations

import re
from typing import Final

from ariane_record.errors import IllegalName

TOPIC_NAME_LENGTH_MAX: Final = 127
GROUP_NAME_LENGTH_MAX: Final = 120
SYSTEM_TOPIC_NAME_LENGTH_MAX: Final = 255
SYSTEM_GROUP_NAME_LENGTH_MAX: Final = 255

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

REPLY_SUFFIX: Final = "_REPLY_TOPIC"
REPLY_GROUP: Final = "ARIANE_REPLIES"
"""The group as which requesters pull replies; it has no members and no offsets."""

"""The end of the name of the reply topic; the name of its cluster is before it."""

CLUSTER_NAME_LENGTH_MAX: Final = TOPIC_NAME_LENGTH_MAX - len(REPLY_SUFFIX)

DELAY_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
CHECKS_EXHAUSTED_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TEMPLATE_TOPIC: Final = "TBW102"

TRACE_WRITER: Final = "ariane.written_by"
"""The property of a message of the trace topic with the user who wrote it, by its broker's word."""

TRACE_PARENT: Final = "traceparent"
"""The property with the span in which a message was sent, in W3C's trace context format."""

_SYSTEM_TOPICS: Final = frozenset(
    {
        DELAY_TOPIC,
        CHECKS_EXHAUSTED_TOPIC,
        TEMPLATE_TOPIC,
        "BenchmarkTest",
        "CHECKPOINT_TOPIC",
        "OFFSET_MOVED_EVENT",
        "SELF_TEST_TOPIC",
    }
)
_SYSTEM_TOPIC_PREFIXES: Final = (
    RETRY_PREFIX,
    DEAD_LETTER_PREFIX,
    LIGHT_QUEUE_PREFIX,
    "RMQ_SYS_",
    "rmq_sys_",
)
_SYSTEM_GROUP_PREFIXES: Final = (SYSTEM_GROUP_PREFIX, RETRY_PREFIX, DEAD_LETTER_PREFIX)
_SYSTEM_GROUPS: Final = frozenset(
    {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
    }
)

_NAME: Final = re.compile(r"[%|A-Za-z0-9_-]+")
_SYSTEM_NAME: Final = re.compile(r"[%|A-Za-z0-9_+-]+")


def is_system_topic(name: str) -> bool:
    """Whether the topic belongs to the system: no user creates it or sends to it."""
    return name in _SYSTEM_TOPICS or name.startswith(_SYSTEM_TOPIC_PREFIXES)


def is_system_group(name: str) -> bool:
    """Whether the consumer group belongs to the system."""
    return name in _SYSTEM_GROUPS or name.startswith(_SYSTEM_GROUP_PREFIXES)


def check_topic_name(name: str, *, system: bool = False) -> str:
    """Return the name of a topic if it is legal.

    Args:
        name: The topic.
        system: Whether topics of the system are legal too.

    Raises:
        IllegalName: It breaks a rule, which the error names.
    """
    if not is_system_topic(name):
        return _checked("topic", name, _NAME, TOPIC_NAME_LENGTH_MAX)
    if not system:
        raise IllegalName(f"topic {name!r} belongs to the system")
    return _checked("topic", name, _SYSTEM_NAME, SYSTEM_TOPIC_NAME_LENGTH_MAX)


def check_group_name(name: str, *, system: bool = False) -> str:
    """Return the name of a consumer or producer group if it is legal.

    Args:
        name: The group.
        system: Whether groups of the system are legal too, and ones that are longer.

    Raises:
        IllegalName: It breaks a rule, which the error names.
    """
    if not system:
        if is_system_group(name):
            raise IllegalName(f"group {name!r} belongs to the system")
        return _checked("group", name, _NAME, GROUP_NAME_LENGTH_MAX)
    return _checked("group", name, _NAME, SYSTEM_GROUP_NAME_LENGTH_MAX)


def _checked(kind: str, name: str, spelling: re.Pattern[str], length_max: int) -> str:
    if len(name) > length_max or spelling.fullmatch(name) is None:
        raise IllegalName(
            f"{kind} {name!r}: 1 to {length_max} characters of A-Z a-z 0-9 _ - % and | are allowed"
        )
    return name


def retry_topic(group: str) -> str:
    """The topic for the failed messages of a group, which get another attempt."""
    return RETRY_PREFIX + group


def reply_topic(cluster_name: str) -> str:
    """The topic for the replies of a cluster."""
    return cluster_name + REPLY_SUFFIX


def dead_letter_topic(group: str) -> str:
    """The topic of a group's dead letters."""
    return DEAD_LETTER_PREFIX + group
