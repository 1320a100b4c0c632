"""Puts the soak's package on the path, as running its folder does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.append(str(Path(__file__).parents[2] / "faults"))
