"""Queues on the command line, with or without an offset: ``BROKER:ID`` and ``BROKER:ID=OFFSET``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import click

_QUEUE_ID_MAX: Final = 2**31 - 1
_QUEUE_OFFSET_MAX: Final = 2**63 - 1

QueuePlaces: TypeAlias = Mapping[tuple[str, int], int | None]
"""Queue offsets by broker and queue; None for a queue without one."""


def queue_places(
    _context: click.Context, _parameter: click.Parameter, texts: Sequence[str]
) -> QueuePlaces:
    """Read an option that may be repeated; for ``callback=``.

    Raises:
        click.BadParameter: A text is not a queue.
    """
    return dict(_place(text) for text in texts)


def queue_offsets(
    context: click.Context, parameter: click.Parameter, texts: Sequence[str]
) -> Mapping[tuple[str, int], int]:
    """Read an option that may be repeated, each time with an offset; for ``callback=``.

    Raises:
        click.BadParameter: A text is not a queue, or has no offset.
    """
    places = queue_places(context, parameter, texts)
    offsets = {queue: place for queue, place in places.items() if place is not None}
    for broker_name, queue_id in places.keys() - offsets.keys():
        raise click.BadParameter(f"'{broker_name}:{queue_id}' is not BROKER:ID=OFFSET")
    return offsets


def _place(text: str) -> tuple[tuple[str, int], int | None]:
    broker, colon, rest = text.rpartition(":")
    queue_id, equals, wanted = rest.partition("=")
    if not (broker and colon and queue_id.isdecimal() and wanted.isdecimal() == bool(equals)):
        raise click.BadParameter(f"{text!r} is not BROKER:ID=OFFSET")
    # By length first: Python does not read numbers of thousands of digits.
    if (
        max(len(queue_id), len(wanted)) > len(str(_QUEUE_OFFSET_MAX))
        or int(queue_id) > _QUEUE_ID_MAX
        or int(wanted or 0) > _QUEUE_OFFSET_MAX
    ):
        raise click.BadParameter(f"{text!r} is beyond every queue")
    return (broker, int(queue_id)), int(wanted) if equals else None
