"""Lets tests import the harness and the drivers beside them."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "drivers")]
