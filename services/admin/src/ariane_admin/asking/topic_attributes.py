"""The attributes of topics: which somebody has set, and which a purge has left."""

from __future__ import annotations

from typing import Final

from ariane.broker.v1 import topic_service_pb2 as topic_pb

SHOWN_SINCE: Final = "shown.since.ms"
"""The attribute of a topic: messages that were stored before this time are shown to nobody."""


def set_attributes(topic: topic_pb.Topic) -> dict[str, str]:
    """The attributes that belong to the definition of a topic.

    Not what was purged: each broker has a time of its own, and an old definition shows nothing
    again.
    """
    return {name: text for name, text in topic.attributes.items() if name != SHOWN_SINCE}
