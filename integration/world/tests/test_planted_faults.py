"""Each fault that can be planted stands where the house has changed nothing since."""

import ast
from pathlib import Path

from played_world.planted.planted_faults import MENDS, MISTAKES, PLANTED
from played_world.planted.planting import planted_source

ROOT = Path(__file__).parents[3]


def test_every_fault_can_be_planted():
    assert len(PLANTED) == len(MENDS) + len(MISTAKES)
    for planted in PLANTED.values():
        source = (ROOT / planted.path).read_text()
        assert ast.dump(ast.parse(planted_source(planted, source))) != ast.dump(ast.parse(source))
