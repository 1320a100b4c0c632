"""Puts the year's package and the demo's on the path, as running its folder does."""

import sys
from pathlib import Path

YEAR = Path(__file__).parent.parent
sys.path[:0] = [str(YEAR), str(YEAR.parent / "demo")]
