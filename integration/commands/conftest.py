"""Modules beside the tests are theirs to import."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
