"""Definitions in parts for one call each: a broker saves its tables after each change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ariane.admin.v1.definition_service_pb2 import Definitions

PART: Final = 200
"""Topics and groups of one call, which take a broker some seconds."""


def parts_of(definitions: Definitions) -> Iterator[Definitions]:
    """All parts, topics first; one empty part if there are no definitions."""
    topics, groups = definitions.topics, definitions.groups
    origin = definitions.cluster_name
    for begin in range(0, len(topics), PART):
        yield Definitions(topics=topics[begin : begin + PART], cluster_name=origin)
    for begin in range(0, len(groups), PART):
        yield Definitions(groups=groups[begin : begin + PART], cluster_name=origin)
    if not topics and not groups:
        yield Definitions(cluster_name=origin)
