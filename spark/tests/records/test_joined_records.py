"""Records that were decoded in parts are the same as those decoded together."""

import numpy as np
import pytest

from ariane_record.decoding.columns import decode_columns
from ariane_record.decoding.header_columns import decode_headers
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_spark.records.joined_records import joined

SPANS = (
    *("starts", "sizes", "body_start", "body_length", "topic_start", "topic_length"),
    *("properties_start", "properties_length"),
)


def block(numbers):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
    for number in numbers:
        properties = {"size": "l" * number} if number else None
        encoder.add(b"x" * number, properties=properties, keys=["k"], born_timestamp_ms=number)
    return encoder.finish()


def headers_only(columns):
    """As a broker sends them without bodies."""
    spans = zip(columns.properties_start, columns.properties_length, strict=True)
    texts = [bytes(columns.records[start : start + length]) for start, length in spans]
    ends = np.cumsum([len(text) for text in texts]).astype("<i4")
    headers = columns.headers.tobytes()
    return decode_headers(headers, columns.sizes, memoryview(b"".join(texts)), ends.tobytes())


@pytest.mark.parametrize("form", [lambda columns: columns, headers_only], ids=["all", "headers"])
def test_parts_are_the_whole(form):
    blocks = [block(numbers) for numbers in ([3, 0], [1], [0, 0, 7])]
    parts = [form(decode_columns(memoryview(each.records), each.sizes)) for each in blocks]

    together = joined(parts)

    octets = b"".join(each.records for each in blocks)
    whole = form(decode_columns(octets, np.concatenate([each.sizes for each in blocks])))
    assert bytes(together.records) == bytes(whole.records)
    assert (together.headers == whole.headers).all()
    assert together.headers.dtype == whole.headers.dtype
    checked = SPANS if form is not headers_only else SPANS[-2:]
    for name in checked:
        assert getattr(together, name).tolist() == getattr(whole, name).tolist(), name
    sizes = together.properties.places_of("size")
    assert together.properties.texts(sizes) == ["lll", "l", "lllllll"]
    assert joined(parts[:1]) is parts[0]
