"""Hypothesis strategies for records, for tests."""

from ariane_record.testing.strategies import (
    blocks,
    body_bytes,
    message_arguments,
    property_maps,
    record_fields,
    topic_names,
)

__all__ = [
    "blocks",
    "body_bytes",
    "message_arguments",
    "property_maps",
    "record_fields",
    "topic_names",
]
