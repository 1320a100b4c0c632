"""No foreign bytes break a parser: seeds, what a fuzzer has found, and changes of both."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsers import PARSERS

CORPUS = Path(__file__).with_name("corpus")


def corpus_of(name):
    folder = CORPUS / name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


@st.composite
def changed(draw, known):
    """Some bytes of ``known`` with a part cut, doubled, or replaced by others."""
    data = draw(st.sampled_from(known))
    begin = draw(st.integers(0, len(data)))
    end = draw(st.integers(begin, min(len(data), begin + 40)))
    middle = draw(st.one_of(st.binary(max_size=8), st.just(data[begin:end] * 2)))
    return data[:begin] + middle + data[end:]


@pytest.mark.parametrize("name", PARSERS)
def test_no_bytes_break_a_parser(name):
    parser = PARSERS[name]
    known = [*parser.seeds, *corpus_of(name)]
    taken = [parser.play(data) for data in known]
    assert any(taken), "what good peers say is taken"

    @given(st.one_of(changed(known), st.binary(max_size=64)))
    def play(data):
        parser.play(data)

    play()


def test_every_corpus_and_all_that_was_fuzzed_is_of_a_parser():
    assert {path.name for path in CORPUS.iterdir()} <= PARSERS.keys()
    lines = CORPUS.with_name("fuzzed.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    assert {name for name, *_ in rows} <= PARSERS.keys()
    assert all(float(minutes) >= 0 and int(inputs) >= 0 for _, minutes, inputs, *_ in rows)
