import numpy as np
import pytest

from ariane_record import encode_properties
from ariane_record.decoding.property_columns import decode_property_text


@pytest.fixture(scope="session")
def columns_of():
    """Messages, said as their properties, as the columns that a reader has of them."""

    def columns(messages):
        rows = [encode_properties(properties) for properties in messages]
        return decode_property_text(b"".join(rows), np.array([len(row) for row in rows], np.int64))

    return columns
