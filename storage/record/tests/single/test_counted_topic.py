from __future__ import annotations

import pytest

from ariane_record.errors import RecordTooLarge
from ariane_record.layout import MAGIC_V1, MAGIC_V2
from ariane_record.single.counted_topic import counted_topic


@pytest.mark.parametrize(
    ("topic", "magic", "length"),
    [
        ("o", MAGIC_V1, b"\x01"),
        ("o" * 127, MAGIC_V1, b"\x7f"),
        ("o" * 128, MAGIC_V2, b"\x00\x80"),
        ("é" * 64, MAGIC_V2, b"\x00\x80"),
        ("o" * 0x7FFF, MAGIC_V2, b"\x7f\xff"),
    ],
)
def test_the_length_of_a_topic_is_that_of_its_bytes(topic, magic, length):
    assert counted_topic(topic) == (magic, length + topic.encode())


def test_a_topic_that_fits_into_no_record_is_refused_every_time():
    for _ in range(2):
        with pytest.raises(RecordTooLarge, match="topic of 32768 bytes"):
            counted_topic("o" * 0x8000)
