"""Filters as messages of the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from ariane.filter.v1 import filter_pb2 as filter_pb
from ariane_filter.catalogue.catalogue import KeptFilter
from ariane_filter.jail.limits import FilterLanguage

GROUPS_SHOWN_MAX: Final = 100

_LANGUAGES: Final = {
    FilterLanguage.WASM: filter_pb.FILTER_LANGUAGE_WASM,
    FilterLanguage.PYTHON: filter_pb.FILTER_LANGUAGE_PYTHON,
}


def time_of(milliseconds: int) -> Timestamp:
    """A time since 1970 UTC."""
    moment = Timestamp()
    moment.FromMilliseconds(milliseconds)
    return moment


def filter_message(kept: KeptFilter, groups: Sequence[str]) -> filter_pb.Filter:
    """One version.

    Args:
        kept: The version in the catalogue.
        groups: Groups that pull through it here.
    """
    return filter_pb.Filter(
        filter=kept.version.name,
        version=kept.version.sha256,
        language=_LANGUAGES[kept.language],
        module_size_bytes=kept.size_bytes,
        state=(
            filter_pb.FILTER_STATE_QUARANTINED
            if kept.quarantine_cause
            else filter_pb.FILTER_STATE_ACTIVE
        ),
        quarantine_cause=kept.quarantine_cause,
        create_time=time_of(kept.create_time_ms),
        consumer_groups=groups[:GROUPS_SHOWN_MAX],
    )
