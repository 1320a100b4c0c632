from __future__ import annotations

from pathlib import Path

import pytest
from fuzzed_ends import play

CORPUS = sorted(Path(__file__).with_name("corpus").iterdir())


@pytest.mark.parametrize("place", range(8))
def test_nothing_that_a_fuzzer_has_found_breaks_an_end(place):
    assert len(CORPUS) >= 40
    for path in CORPUS[place::8]:
        play(path.read_bytes())
