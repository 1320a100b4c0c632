import zlib

from hypothesis import given
from hypothesis import strategies as st

from ariane_record.checksums.checksum import checksum_digits, crc32, masked_crc32


@given(st.binary(max_size=300), st.integers(0, 0xFFFFFFFF))
def test_crc32_is_that_of_zlib(content, value):
    assert crc32(content, value) == zlib.crc32(content, value)
    assert masked_crc32(content, value) == zlib.crc32(content, value) & 0x7FFFFFFF


def test_known_value():
    assert masked_crc32(b"Hello") == 0x77D18982


def test_digits_come_least_significant_first():
    assert checksum_digits(1234) == b"4321000000"
    assert checksum_digits(0x7FFFFFFF) == b"7463847412"
    assert checksum_digits(0) == b"0000000000"
