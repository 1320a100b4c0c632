"""CRCs by algebra are those that zlib computes byte by byte."""

from __future__ import annotations

import zlib
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.checksums.crc_algebra import (
    CrcFolder,
    bare_crc,
    counter_crcs,
    place_tables,
    zero_shift,
    zero_unshift,
)

texts = st.binary(max_size=200)
distances = st.one_of(
    st.integers(0, 600), st.sampled_from([255, 256, 65_535, 65_536, (1 << 20) + 7])
)


def uint32s(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


@given(texts, texts)
def test_the_crc_of_two_texts_follows_from_those_of_each(first, second):
    shifted = zero_shift(uint32s(zlib.crc32(first)), len(second))
    assert int(shifted[0]) ^ zlib.crc32(second) == zlib.crc32(first + second)


@given(st.lists(st.tuples(texts, distances), min_size=1, max_size=20))
def test_each_register_shifts_by_its_own_distance(shifts):
    crcs = uint32s(*(zlib.crc32(text) for text, _ in shifts))
    expected = [
        zlib.crc32(text + bytes(distance)) ^ zlib.crc32(bytes(distance))
        for text, distance in shifts
    ]
    assert zero_shift(crcs, np.array([d for _, d in shifts])).tolist() == expected
    by_one = [int(zero_shift(crcs[place : place + 1], d)[0]) for place, (_, d) in enumerate(shifts)]
    assert by_one == expected


def test_the_longest_distances_take_all_four_digits():
    crc = uint32s(0xDEADBEEF)
    twice = zero_shift(zero_shift(crc, 1 << 31), (1 << 31) - 1)
    assert zero_shift(crc, (1 << 32) - 1).tolist() == twice.tolist()


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 100))
def test_shifts_can_be_taken_back(crc, distance):
    assert int(zero_shift(uint32s(zero_unshift(crc, distance)), distance)[0]) == crc


@given(st.binary(min_size=1, max_size=100), st.data())
def test_texts_that_differ_differ_by_the_bare_crc_of_the_difference(text, data):
    other = data.draw(st.binary(min_size=len(text), max_size=len(text)))
    difference = bytes(a ^ b for a, b in zip(text, other, strict=True))
    assert zlib.crc32(text) ^ zlib.crc32(other) == bare_crc(difference)


@pytest.mark.parametrize(
    "first", [0, 1, 250, 255, 65_000, (1 << 32) - 3, (1 << 56) + 99, (1 << 63) - 2000]
)
@pytest.mark.parametrize("step", [1, 348])
def test_counters_add_what_their_bytes_add(first, step):
    numbers = first + step * np.arange(5, dtype=np.int64)
    crcs = counter_crcs(numbers, place_tables(20, 28, 88))
    expected = [bare_crc(bytes(20) + n.to_bytes(8, "big") + bytes(60)) for n in numbers.tolist()]
    assert crcs.tolist() == expected


def test_one_counter_is_a_counter():
    numbers = np.array([77], np.int64)
    assert counter_crcs(numbers, place_tables(0, 8, 8)).tolist() == [bare_crc(bytes(7) + b"M")]


@given(st.lists(st.binary(min_size=4, max_size=60), min_size=1, max_size=30), st.booleans())
def test_folding_the_crcs_of_parts_gives_that_of_the_whole(parts, even):
    if even:
        parts = [parts[0]] * len(parts)
    # A crc that stands before the last four bytes of its part has to be shifted back by those.
    ends = list(accumulate(map(len, parts)))
    registers = uint32s(*(zero_unshift(zlib.crc32(part), 4) for part in parts))
    folder = CrcFolder()
    whole = b"".join(parts)
    places = np.array(ends) - 4
    for _ in range(2):  # The scratch is zeros again.
        assert folder.fold(registers, places, len(whole)) == zlib.crc32(whole)
        if even:
            folded = folder.fold(registers, places, len(whole), len(parts[0]))
            assert folded == zlib.crc32(whole)


def test_a_smaller_fold_after_a_larger_one_sees_none_of_it():
    folder = CrcFolder()
    folder.fold(uint32s(1, 2, 3), np.array([0, 100, 996]), 1000)
    assert folder.fold(uint32s(0), np.array([0]), 50) == 0
