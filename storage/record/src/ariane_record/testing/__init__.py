"""Hypothesis strategies for records, for the tests of whoever handles them."""

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
