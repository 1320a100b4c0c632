"""A filter for FilterServers: late departures from one airport, by what a message's body says."""

import json
from typing import Any


def matches(message: Any) -> bool:
    """Whether a message is to be delivered."""
    # Most events are none of these: to read their JSON would cost more than to look for a word.
    if message.tag != "departed" or b'"origin":"JFK"' not in message.body:
        return False
    return bool(json.loads(message.body)["departure_delay"] > 60)
