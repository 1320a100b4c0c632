"""Where the stack is told from."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
# The flights are the demo's.
sys.path += [str(HERE), str(HERE.parent / "demo")]
