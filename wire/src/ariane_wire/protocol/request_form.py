"""Requests that are alike but for some metadata and the time that is left."""

from __future__ import annotations

from collections.abc import Sequence

from ariane_wire.protocol.block_patterns import Fields
from ariane_wire.protocol.heads import VALUE_CHARS_BAD, RequestHead, hides
from ariane_wire.protocol.metadata import text
from ariane_wire.protocol.timeouts import parse_timeout

TIMEOUT = b"grpc-timeout"


class RequestForm:
    """What the heads of such requests have alike. See ``Form``.

    Args:
        head: One of them.
        places: Of each value that varies: its place in the metadata; None of the time that is left.
    """

    __slots__ = ("_head", "_metadata", "_places", "repeats")

    def __init__(self, head: RequestHead, places: Sequence[int | None]) -> None:
        self._head = head
        self._metadata = list(head.metadata)
        self._places = places
        self.repeats = all(place is None for place in places)
        """Times are rounded by clients that wish to repeat themselves."""

    def head(self, values: Sequence[bytes]) -> RequestHead | None:
        """The head with these values; None where one needs a closer look."""
        alike = self._head
        timeout_s = alike.timeout_s
        metadata = self._metadata.copy()
        for place, value in zip(self._places, values, strict=True):
            if place is None:
                try:
                    timeout_s = parse_timeout(value)
                except ValueError:
                    return None
            elif VALUE_CHARS_BAD.isdisjoint(value):
                metadata[place] = metadata[place][0], text(value)
            else:
                return None
        return RequestHead(
            alike.method,
            alike.authority,
            tuple(metadata),
            timeout_s,
            alike.encoding,
            alike.accepted,
        )


def request_form(head: RequestHead, fields: Fields, varied: Sequence[int]) -> RequestForm | None:
    """What a head has alike with others whose numbered fields differ; None: it is not known.

    Args:
        head: A head.
        fields: Its fields.
        varied: Numbers of fields, in order.
    """
    if head.is_uncommon or head.is_trailers or head.limit_octets is not None:
        return None
    names = [name for name, _ in fields]
    if names.count(TIMEOUT) > 1 or b":authority" not in names:
        return None
    # One field of that kind may be several pairs.
    if any(name.endswith(b"-bin") for name in names):
        return None
    shown = [at for at, name in enumerate(names) if not hides(name)]
    numbers: dict[int, int | None] = {at: place for place, at in enumerate(shown)}
    if TIMEOUT in names:
        numbers[names.index(TIMEOUT)] = None
    if not numbers.keys() >= set(varied) or len(shown) != len(head.metadata):
        return None
    return RequestForm(head, [numbers[at] for at in varied])
