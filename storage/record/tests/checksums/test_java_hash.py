import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.checksums.java_hash import (
    CHUNK_UNITS,
    hash_units,
    java_string_hashes,
    key_hash,
    key_hashes,
    tag_code,
)

INT32_MIN = -(1 << 31)


def plain_hash(text):
    """``String.hashCode`` as its documentation says it."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2").tolist()
    word = 0
    for unit in units:
        word = (31 * word + unit) % (1 << 32)
    return word - (1 << 32) if word >= 1 << 31 else word


def key_with_hash(topic, word):
    """A key of 8 characters whose hash behind the topic is the given one."""
    length, lowest = 8, ord("A")
    prefix = plain_hash(topic + "#") * 31**length
    rest = (word - prefix - sum(lowest * 31**place for place in range(length))) % (1 << 32)
    digits = [rest // 31**place % 31 for place in reversed(range(length))]
    return "".join(chr(lowest + digit) for digit in digits)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("中文标签", 622041809),
        ("polygenelubricants", INT32_MIN),
        ("😀", 1772899),
    ],
)
def test_the_code_of_a_tag_is_javas_hash(text, expected):
    assert tag_code(text) == expected


@given(st.lists(st.text(st.characters(), max_size=80), max_size=40))
def test_many_hashes_equal_one_by_one(texts):
    assert java_string_hashes(texts).tolist() == [plain_hash(text) for text in texts]


def test_many_hashes_beyond_the_size_of_their_tables():
    texts = ["", "x" * 40_000, "y" * 40_000, "z" * 70_000, "", "中" * 65_536, "k1", ""]

    assert java_string_hashes(texts).tolist() == [plain_hash(text) for text in texts]


def test_key_hash_is_that_of_the_golden_vector():
    assert key_hash("TopicTest", "k1") == 2746024


def test_key_hash_of_the_smallest_number_is_zero():
    key = key_with_hash("TopicTest", INT32_MIN)
    assert plain_hash(f"TopicTest#{key}") == INT32_MIN

    assert key_hash("TopicTest", key) == 0
    assert key_hashes("TopicTest", [key]).tolist() == [0]
    assert key_hashes("TopicTest", [key] * 100).tolist() == [0] * 100


@given(
    st.text(min_size=1, max_size=20),
    st.lists(st.text(min_size=1, max_size=40), max_size=12),
    st.sampled_from([1, 10]),
)
def test_many_key_hashes_equal_one_by_one(topic, keys, repetitions):
    keys = keys * repetitions  # Few keys and many take different ways.
    expected = [abs(plain_hash(f"{topic}#{key}")) % (1 << 31) for key in keys]

    assert [key_hash(topic, key) for key in keys] == expected
    assert key_hashes(topic, keys).tolist() == expected


def test_key_hashes_of_keys_too_long_for_the_tables():
    keys = ["k" * 70_000, "short"]

    assert key_hashes("t", keys).tolist() == [key_hash("t", key) for key in keys]


def test_texts_that_lie_back_to_back_are_hashed_however_long_they_are():
    texts = ["a", "bc" * CHUNK_UNITS, "", "d" * (CHUNK_UNITS - 1), "efg", "h" * CHUNK_UNITS]
    units = np.frombuffer("".join(texts).encode(), np.uint8)
    found = hash_units(units, np.array(list(map(len, texts)), np.int64))
    assert found.view(np.int32).tolist() == list(map(plain_hash, texts))
