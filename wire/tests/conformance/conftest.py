"""Puts this folder and the peers on the path, for the modules beside the tests."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "peers")]
