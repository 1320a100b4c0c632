"""Puts the packages on the path, as running the folder does."""

import sys
from pathlib import Path

HERE = Path(__file__).parents[2]
sys.path += [str(HERE / "partitions"), str(HERE / "faults"), str(HERE / "soak")]
