"""Where the programs of the languages are started from."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
