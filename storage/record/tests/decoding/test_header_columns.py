import numpy as np
import pytest
from hypothesis import given

from ariane_record.decoding.arrow import COLUMN_NAMES, to_arrow
from ariane_record.decoding.columns import decode_columns
from ariane_record.decoding.header_columns import decode_headers
from ariane_record.errors import RecordCorrupted
from ariane_record.layout import HEADER_BYTES
from ariane_record.testing.strategies import blocks

WITHOUT_BODIES = [name for name in COLUMN_NAMES if name not in {"topic", "body"}]


def parts_of(block):
    """What a broker sends of a block without its bodies."""
    whole = decode_columns(block.records, block.sizes)
    spans = zip(
        whole.properties_start.tolist(),
        (whole.properties_start + whole.properties_length).tolist(),
        strict=True,
    )
    properties = b"".join(bytes(block.records[start:end]) for start, end in spans)
    ends = np.cumsum(whole.properties_length).astype("<i4").tobytes()
    return whole, whole.headers.tobytes(), properties, ends


@given(blocks(count_min=1))
def test_headers_and_properties_say_what_whole_records_say(block):
    whole, headers, properties, ends = parts_of(block)

    columns = decode_headers(headers, block.sizes, properties, ends)

    assert to_arrow(columns, WITHOUT_BODIES).equals(to_arrow(whole, WITHOUT_BODIES))


@given(blocks(count_min=2))
def test_parts_that_do_not_fit_are_refused(block):
    _, headers, properties, ends = parts_of(block)

    assert len(decode_headers(headers, block.sizes)) == block.count
    with pytest.raises(RecordCorrupted):
        decode_headers(headers[HEADER_BYTES:], block.sizes)
    with pytest.raises(RecordCorrupted):
        decode_headers(headers, block.sizes, properties, ends[4:])
    with pytest.raises(RecordCorrupted):
        decode_headers(headers, block.sizes, properties, b"")
    with pytest.raises(RecordCorrupted):
        decode_headers(headers, block.sizes, properties + b"x", ends)
