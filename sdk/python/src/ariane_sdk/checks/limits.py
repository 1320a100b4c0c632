"""What a message may be: checked here, before anything goes over the wire.

What the record itself cannot carry (separators in properties, too many keys) is refused by the
encoder; here is what the format could carry and the system does not want.
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
    """Return the name of a topic that a user may write.

    Raises:
        NameIllegal: Says which rule it breaks.
    """
    if not isinstance(name, str):
        raise NameIllegal(f"topic {name!r:.100}: a text is expected")
    try:
        return check_topic_name(name)
    except IllegalName as error:
        raise NameIllegal(str(error), metadata={"topic": name}) from None


def checked_group(name: str, *, system: bool = False) -> str:
    """Return the name of a group that a user may bear.

    Args:
        name: The group.
        system: Whether a group that others have made will do, too: one of the system, or of a Java
            broker. They can be looked at.

    Raises:
        NameIllegal: Says which rule it breaks.
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
        MessageIllegal: It could not be told from an expression.
    """
    if (
        TAG_SEPARATOR in tag
        or tag == ALL_TAGS
        or tag != tag.strip()
        or holds_control_character(tag)
    ):
        raise MessageIllegal(
            f"tag {tag!r}: no '||', not '*', no spaces around it, no control characters"
        )
    return tag


def check_timeout(timeout_s: object) -> None:
    """Refuse a time to wait that is none.

    Raises:
        IllegalArgument: It is no number.
    """
    if not isinstance(timeout_s, int | float) or math.isnan(timeout_s):
        raise IllegalArgument(f"timeout_s {timeout_s!r:.100}: a number of seconds is expected")


def check_body_size(size_bytes: int, limit_bytes: int) -> None:
    """Refuse a body that is too large.

    Raises:
        MessageTooLarge: It is.
    """
    if size_bytes > limit_bytes:
        raise MessageTooLarge(
            f"a body of {size_bytes} bytes; {limit_bytes} are allowed",
            metadata={"size_bytes": str(size_bytes), "limit_bytes": str(limit_bytes)},
        )


def refusal_of(error: RecordError) -> ArianeError:
    """What the encoder refused, as an error of this package."""
    if isinstance(error, RecordTooLarge):
        return MessageTooLarge(str(error))
    return MessageIllegal(str(error))
