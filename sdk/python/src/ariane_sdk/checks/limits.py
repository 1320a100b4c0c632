"""The limits of messages, checked before anything is sent.

The encoder refuses what a record cannot hold (separators in properties, too many keys); here are
the limits that the system sets beyond the format.
"""

from __future__ import annotations

import math
from typing import Final

from ariane_record.control_characters import holds_control_character
from ariane_record.errors import IllegalName, RecordError, RecordTooLarge
from ariane_record.names import check_group_name, check_topic_name
from ariane_sdk.errors import (
    ArianeError,
    IllegalArgument,
    MessageIllegal,
    MessageTooLarge,
    NameIllegal,
)

BODY_BYTES_MAX: Final = 4 << 20
"""RocketMQ's limit, and the default of our brokers."""

TAG_SEPARATOR: Final = "||"
ALL_TAGS: Final = "*"


def checked_topic(name: str) -> str:
    """Return the name of a topic that a user may write to.

    Raises:
        NameIllegal: It breaks a rule, which the error names.
    """
    if not isinstance(name, str):
        raise NameIllegal(f"topic {name!r:.100}: a text is expected")
    try:
        return check_topic_name(name)
    except IllegalName as error:
        raise NameIllegal(str(error), metadata={"topic": name}) from None


def checked_group(name: str, *, system: bool = False) -> str:
    """Return the name of a group that a user may use.

    Args:
        name: The group.
        system: Whether groups of the system are allowed too, for reading.

    Raises:
        NameIllegal: It breaks a rule, which the error names.
    """
    if not isinstance(name, str):
        raise NameIllegal(f"group {name!r:.100}: a text is expected", reason="GROUP_NAME_ILLEGAL")
    try:
        return check_group_name(name, system=system)
    except IllegalName as error:
        raise NameIllegal(
            str(error), reason="GROUP_NAME_ILLEGAL", metadata={"consumer_group": name}
        ) from None


def checked_tag(tag: str) -> str:
    """Return a tag that a subscription can name.

    Raises:
        MessageIllegal: The tag could be read as an expression.
    """
    if "|" in tag or tag == ALL_TAGS or tag != tag.strip() or holds_control_character(tag):
        raise MessageIllegal(
            f"tag {tag!r}: no '|', not '*', no spaces around it, no control characters"
        )
    return tag


def check_timeout(timeout_s: object) -> None:
    """Refuse an illegal time to wait.

    Raises:
        IllegalArgument: It is not a number.
    """
    if not isinstance(timeout_s, int | float) or math.isnan(timeout_s):
        raise IllegalArgument(f"timeout_s {timeout_s!r:.100}: a number of seconds is expected")


def check_body_size(size_bytes: int, limit_bytes: int) -> None:
    """Refuse a body that is too large.

    Raises:
        MessageTooLarge: The body is larger than the limit.
    """
    if size_bytes > limit_bytes:
        raise MessageTooLarge(
            f"a body of {size_bytes} bytes; {limit_bytes} are allowed",
            metadata={"size_bytes": str(size_bytes), "limit_bytes": str(limit_bytes)},
        )


def refusal_of(error: RecordError) -> ArianeError:
    """The encoder's error as an error of this package."""
    if isinstance(error, RecordTooLarge):
        return MessageTooLarge(str(error))
    return MessageIllegal(str(error))
