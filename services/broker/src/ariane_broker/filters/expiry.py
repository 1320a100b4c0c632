"""By when messages must have expired to be passed over."""

from __future__ import annotations

from ariane_record.names import DEAD_LETTER_PREFIX


def expiry_ms(topic: str, now_ms: int) -> int:
    """The time for reads of a topic; 0, so that nothing is passed over, for dead letters.

    These are for people, who want to see why a message went there.
    """
    return 0 if topic.startswith(DEAD_LETTER_PREFIX) else now_ms
